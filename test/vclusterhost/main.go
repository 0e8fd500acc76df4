// Command vclusterhost is to a plugin what vCluster is: it starts the plugin as vCluster's manager of plugins does, hands
// over kubeconfigs and configuration in the same form, and then calls what it is told to on standard input, a line each.
// The answers go to standard output, a line each, and what the plugin prints to standard error.
//
//	vclusterhost -plugin /plugins/isthmus/plugin -name shop -namespace vcluster-acme--shop -config vcluster.yaml \
//	  -virtual virtual.kubeconfig -host host.kubeconfig
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"sigs.k8s.io/yaml"

	"isthmus.dev/isthmus/internal/vcluster"
	"isthmus.dev/isthmus/internal/vcluster/pluginv2"
)

// flags are what a vCluster would know.
type flags struct {
	plugin, name, namespace, config, virtual, host string
}

func main() {
	var f flags
	flag.StringVar(&f.plugin, "plugin", "", "the plugin's binary, <folder>/<name>/plugin")
	flag.StringVar(&f.name, "name", "", "the virtual cluster's name")
	flag.StringVar(&f.namespace, "namespace", "", "its host namespace")
	flag.StringVar(&f.config, "config", "", "its vcluster.yaml")
	flag.StringVar(&f.virtual, "virtual", "", "a kubeconfig of the virtual cluster")
	flag.StringVar(&f.host, "host", "", "a kubeconfig of its host")
	flag.Parse()
	if err := f.run(context.Background()); err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
}

func (f flags) run(ctx context.Context) error {
	values, pluginConfig, err := f.values()
	if err != nil {
		return err
	}
	cmd := exec.Command(f.plugin)
	cmd.Env = os.Environ()
	if pluginConfig != "" {
		cmd.Env = append(cmd.Env, "PLUGIN_CONFIG="+pluginConfig)
	}
	client := plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig:  vcluster.Handshake,
		Logger:           hclog.New(&hclog.LoggerOptions{Name: "plugin", Output: os.Stderr, Level: hclog.Info}),
		Plugins:          plugin.PluginSet{vcluster.SetKey: called{}},
		Cmd:              cmd,
		SyncStdout:       os.Stderr,
		SyncStderr:       os.Stderr,
		SkipHostEnv:      true,
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
	})
	defer client.Kill()
	protocol, err := client.Client()
	if err != nil {
		return err
	}
	raw, err := protocol.Dispense(vcluster.SetKey)
	if err != nil {
		return err
	}
	service := raw.(pluginv2.PluginClient)
	told, err := f.initialization(values)
	if err != nil {
		return err
	}
	if _, err := service.Initialize(ctx, &pluginv2.Initialize_Request{Config: string(told)}); err != nil {
		return err
	}
	answer, err := service.GetPluginConfig(ctx, &pluginv2.GetPluginConfig_Request{})
	if err != nil {
		return err
	}
	fmt.Printf("ok pid=%s %s\n", client.ID(), answer.GetConfig())
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		command, text, _ := strings.Cut(lines.Text(), " ")
		if command == "end" {
			break
		}
		if err := call(ctx, service, command, text); err != nil {
			fmt.Println("error:", err)
		}
	}
	client.Kill()
	fmt.Println("ok")
	return nil
}

// call makes a call and prints what it answers.
func call(ctx context.Context, service pluginv2.PluginClient, command, text string) error {
	switch command {
	case "leader":
		if _, err := service.SetLeader(ctx, &pluginv2.SetLeader_Request{}); err != nil {
			return err
		}
		fmt.Println("ok")
	case "mutate":
		answer, err := service.Mutate(ctx, &pluginv2.Mutate_Request{ApiVersion: "v1", Kind: "Pod", Type: "CreatePhysical", Object: text})
		if err != nil {
			return err
		}
		fmt.Printf("ok mutated=%t\n", answer.GetMutated())
	case "initialize":
		if _, err := service.Initialize(ctx, &pluginv2.Initialize_Request{Config: text}); err != nil {
			return err
		}
		fmt.Println("ok")
	default:
		return fmt.Errorf("unknown command %q: expected leader, mutate, initialize or end", command)
	}
	return nil
}

// values reads the vcluster.yaml, and returns it with the plugin's own configuration, whose keys are then in order.
func (f flags) values() (values map[string]any, pluginConfig string, err error) {
	text, err := os.ReadFile(f.config)
	if err != nil {
		return nil, "", err
	}
	if err := yaml.Unmarshal(text, &values); err != nil {
		return nil, "", err
	}
	name := filepath.Base(filepath.Dir(f.plugin))
	for _, key := range []string{"plugin", "plugins"} {
		plugins, _ := values[key].(map[string]any)
		if found, ok := plugins[name].(map[string]any); ok {
			ordered, err := yaml.Marshal(found["config"])
			if err != nil {
				return nil, "", err
			}
			pluginConfig = string(ordered)
		}
	}
	return values, pluginConfig, nil
}

// initialization is what Initialize is called with.
func (f flags) initialization(values map[string]any) ([]byte, error) {
	values["name"], values["hostNamespace"] = f.name, f.namespace
	config, err := json.Marshal(values)
	if err != nil {
		return nil, err
	}
	virtual, err := os.ReadFile(f.virtual)
	if err != nil {
		return nil, err
	}
	host, err := os.ReadFile(f.host)
	if err != nil {
		return nil, err
	}
	return json.Marshal(map[string]any{
		"pro": map[string]any{}, "syncerConfig": virtual, "workloadConfig": host, "controlPlaneConfig": host, "physicalClusterConfig": host,
		"config": config, "options": []byte("{}"), "currentNamespace": f.namespace, "workingDir": filepath.Dir(f.plugin), "port": 13370,
	})
}

// called is the plugin's service as vCluster calls it.
type called struct{ plugin.NetRPCUnsupportedPlugin }

// GRPCClient implements plugin.GRPCPlugin.
func (called) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, connection *grpc.ClientConn) (any, error) {
	return pluginv2.NewPluginClient(connection), nil
}

// GRPCServer implements plugin.GRPCPlugin.
func (called) GRPCServer(*plugin.GRPCBroker, *grpc.Server) error {
	return errors.New("this is the side of vCluster")
}
