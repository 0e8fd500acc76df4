package vcluster

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"isthmus.dev/isthmus/internal/config"
	"isthmus.dev/isthmus/internal/vcluster/pluginv2"
)

const (
	listenAnywhere = "listen: 127.0.0.1:0\n"
	goodRules      = "version: v1\nsyncResources: [{apiVersion: v1, kind: Secret, direction: toHost}]\n"
	nowhere        = "{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: c, cluster: {server: \"https://127.0.0.1:1\"}}], contexts: [{name: c, context: {cluster: c}}]}"
)

// started is a plugin that was told to initialize; it ends with the test.
func started(t *testing.T, settings, told string) (*Plugin, error) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	p := newPlugin(ctx, "test", settings)
	t.Cleanup(func() {
		stop()
		p.wait(time.Minute)
	})
	_, err := p.Initialize(ctx, &pluginv2.Initialize_Request{Config: told})
	return p, err
}

// F5: whatever it is told, the plugin answers, says why nothing crosses, and goes on answering.
func TestF5_InitializeAnswersToAnything(t *testing.T) {
	good := told(t, func(i *Initialization) { i.SyncerConfig, i.WorkloadConfig = []byte(nowhere), []byte(nowhere) })
	tests := []struct{ name, settings, told, fault string }{
		{"nothing is wrong", goodRules, good, ""},
		{"nothing", "", "", "reading what vCluster says at the start"},
		{"no JSON", goodRules, "{", "reading what vCluster says at the start"},
		{"another type", goodRules, `{"syncerConfig": 7}`, "reading what vCluster says at the start"},
		{"null", goodRules, "null", "reading the vcluster.yaml"},
		{"kubeconfigs that are none", goodRules, told(t, nil), "remote"},
		{"no configuration", "", good, "PLUGIN_CONFIG"},
		{"a configuration that is no YAML", "{", good, "PLUGIN_CONFIG"},
		{"a configuration that is none", "[]", good, "PLUGIN_CONFIG"},
		{"an unknown key", goodRules + "nope: 1\n", good, "nope: unknown field"},
	}
	for _, tt := range tests {
		for _, policy := range []string{"", "failurePolicy: Abort\n"} {
			t.Run(strings.TrimSpace(tt.name+" "+policy), func(t *testing.T) {
				settings := tt.settings
				if !strings.HasPrefix(settings, "version") { // another document would not be what is tested
					if policy != "" {
						t.Skip("it has no place for settings")
					}
				} else {
					settings += listenAnywhere + policy
				}
				p, err := started(t, settings, tt.told)
				if aborts := tt.fault != "" && policy != ""; (err != nil) != aborts || aborts && !strings.Contains(err.Error(), tt.fault) {
					t.Errorf("vCluster is answered %v", err)
				}
				_, unready := p.ready()
				if (unready != nil) != (tt.fault != "") || unready != nil && !strings.Contains(unready.Error(), tt.fault) {
					t.Errorf("readiness: %v, expected %q", unready, tt.fault)
				}
				status, err := json.Marshal(p.status())
				if err != nil || !strings.Contains(string(status), `"rules":[]`) || !strings.Contains(string(status), `"clusters":[]`) {
					t.Errorf("the status: %v %s", err, status)
				}
				if answer, err := p.Mutate(t.Context(), &pluginv2.Mutate_Request{Object: "{"}); err != nil || answer.GetMutated() {
					t.Errorf("Mutate: %v %v", answer, err)
				}
				if answer, err := p.GetPluginConfig(t.Context(), &pluginv2.GetPluginConfig_Request{}); err != nil || answer.GetConfig() != "{}" {
					t.Errorf("GetPluginConfig: %v %v", answer, err)
				}
			})
		}
	}
}

// The address for health and metrics counts although another setting is faulty, and has a default.
func TestF5_WhereAFaultyPluginListens(t *testing.T) {
	for settings, want := range map[string]string{
		"": ":8082", "{": ":8082", goodRules: ":8082", goodRules + "listen: 127.0.0.1:1\nnope: 1\n": "127.0.0.1:1", "listen: [1]\n": ":8082",
	} {
		if have := newPlugin(t.Context(), "test", settings).early(); have.Listen != want {
			t.Errorf("%q: %+v, expected %s", settings, have, want)
		}
	}
	if have := newPlugin(t.Context(), "test", "failurePolicy: Abort\nsyncResources: 7\n").early(); have.FailurePolicy != config.FailureAbort {
		t.Errorf("%+v", have)
	}
}
