package vcluster

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"isthmus.dev/isthmus/internal/vcluster/pluginv2"
)

// Handshake is by what vCluster and a plugin know each other. vCluster starts a plugin with the cookie in its environment.
var Handshake = plugin.HandshakeConfig{ProtocolVersion: 1, MagicCookieKey: "VCLUSTER_PLUGIN", MagicCookieValue: "vcluster"}

// SetKey is the name by which vCluster asks for the service.
const SetKey = "plugin"

// configVariable is the environment variable with the plugin's own configuration, as YAML.
const configVariable = "PLUGIN_CONFIG"

// stopGrace is how long the flows have to end when the process must.
const stopGrace = 5 * time.Second

// Asked reports whether vCluster started this process, as its plugin.
func Asked() bool {
	return len(os.Args) == 1 && os.Getenv(Handshake.MagicCookieKey) == Handshake.MagicCookieValue
}

// Serve is a plugin until vCluster ends it, or is gone. version is what this build calls itself.
func Serve(version string) {
	ctx, stop := context.WithCancel(context.Background())
	p := newPlugin(ctx, version, os.Getenv(configVariable))
	end := func() {
		stop()
		p.wait(stopGrace)
	}
	go func() {
		orphaned(os.Getppid())
		end()
		os.Exit(0)
	}()
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: Handshake,
		Plugins:         plugin.PluginSet{SetKey: served{service: p}},
		GRPCServer:      plugin.DefaultGRPCServer,
		Logger:          hclog.NewNullLogger(),
	})
	end()
}

// orphaned returns when the process is told to end, or its parent is another one than at the start: nothing else tells a
// plugin that vCluster was killed.
func orphaned(parent int) {
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM)
	ticker := time.NewTicker(250 * time.Millisecond)
	defer ticker.Stop()
	for os.Getppid() == parent {
		select {
		case <-told:
			return
		case <-ticker.C:
		}
	}
}

// served offers the service over gRPC, which is all that vCluster speaks.
type served struct {
	plugin.NetRPCUnsupportedPlugin
	service pluginv2.PluginServer
}

// GRPCServer implements plugin.GRPCPlugin.
func (s served) GRPCServer(_ *plugin.GRPCBroker, server *grpc.Server) error {
	pluginv2.RegisterPluginServer(server, s.service)
	return nil
}

// GRPCClient implements plugin.GRPCPlugin.
func (served) GRPCClient(context.Context, *plugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.New("this is the side of the plugin")
}
