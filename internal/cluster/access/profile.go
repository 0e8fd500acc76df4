package access

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clientcmdv1 "k8s.io/client-go/tools/clientcmd/api/v1"
	inventory "sigs.k8s.io/cluster-inventory-api/apis/v1alpha1"
)

// The extensions of a profile's cluster that mean something here. The first is Kubernetes' own (the client
// authentication API), the others are those of KEP-5339.
const (
	extensionExec = "client.authentication.k8s.io/exec"
	extensionArgs = "clusterprofiles.multicluster.x-k8s.io/exec/additional-args"
	extensionEnv  = "clusterprofiles.multicluster.x-k8s.io/exec/additional-envs"
)

// Profile is what matters here of a ClusterProfile, of whichever version.
type Profile struct {
	// Ways are the access providers that the profile names, and the cluster as each of them reaches it.
	Ways map[string]clientcmdv1.Cluster
	// Unhealthy is why its manager calls the control plane unhealthy; empty: it does not.
	Unhealthy string
}

// ReadProfile reads a ClusterProfile. What this version of the API does not know is passed over, as a later one may add to
// it.
func ReadProfile(object *unstructured.Unstructured) (*Profile, error) {
	var status struct {
		Status inventory.ClusterProfileStatus `json:"status"`
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(map[string]any{"status": object.Object["status"]}, &status); err != nil {
		return nil, fmt.Errorf("its status can't be read: %w", err)
	}
	p := &Profile{Ways: map[string]clientcmdv1.Cluster{}}
	for _, way := range slices.Concat(status.Status.CredentialProviders, status.Status.AccessProviders) { // the latter win
		p.Ways[way.Name] = way.Cluster
	}
	if c := meta.FindStatusCondition(status.Status.Conditions, inventory.ClusterConditionControlPlaneHealthy); c != nil && c.Status == metav1.ConditionFalse {
		p.Unhealthy = strings.TrimSuffix(fmt.Sprintf("its condition %s is False: %s: %s", c.Type, c.Reason, c.Message), ": ")
	}
	return p, nil
}

// FromProfile returns how the cluster of a profile is reached: by the first provider of the operator's list that the
// profile has as well. The answer shares nothing with its arguments, and is the same for the same arguments.
func FromProfile(p *Profile, providers *Providers) (*rest.Config, error) {
	provider, cluster, err := choose(p, providers)
	if err != nil {
		return nil, err
	}
	config, err := join(provider, cluster)
	if err != nil {
		return nil, fmt.Errorf("access provider %q: %w", provider.Name, err)
	}
	return config, nil
}

func choose(p *Profile, providers *Providers) (*Provider, *clientcmdv1.Cluster, error) {
	names := slices.Sorted(maps.Keys(p.Ways))
	if len(names) == 0 {
		return nil, nil, errors.New("has no access providers: its manager publishes none in status.accessProviders")
	}
	has := "has the access providers " + strings.Join(names, ", ")
	if providers == nil {
		return nil, nil, fmt.Errorf("%s, and without a file of --clusterprofile-provider-file it is not known how to use one", has)
	}
	known := make([]string, 0, len(providers.List))
	for i := range providers.List {
		provider := &providers.List[i]
		if cluster, ok := p.Ways[provider.Name]; ok {
			return provider, &cluster, nil
		}
		known = append(known, provider.Name)
	}
	return nil, nil, fmt.Errorf("%s, none of which is in the file of --clusterprofile-provider-file, which has %s", has, cmp.Or(strings.Join(known, ", "), "none"))
}

// join puts together what the profile says of the cluster and what the operator says of the plugin.
func join(provider *Provider, cluster *clientcmdv1.Cluster) (*rest.Config, error) {
	if err := checkServer(cluster.Server); err != nil {
		return nil, err
	}
	authority := cluster.CertificateAuthority
	if len(cluster.CertificateAuthorityData) > 0 {
		authority = "" // as in kubeconfigs
	}
	if authority != "" && cluster.InsecureSkipTLSVerify {
		return nil, errors.New("has both insecure-skip-tls-verify and certificate-authority: remove one of them")
	}
	if err := checkAuthority(cluster.CertificateAuthorityData, cluster.InsecureSkipTLSVerify); err != nil {
		return nil, err
	}
	exec, err := plugin(provider, cluster.Extensions)
	if err != nil {
		return nil, err
	}
	config := &rest.Config{
		Host:               cluster.Server,
		DisableCompression: cluster.DisableCompression,
		TLSClientConfig: rest.TLSClientConfig{
			Insecure: cluster.InsecureSkipTLSVerify, ServerName: cluster.TLSServerName,
			CAFile: authority, CAData: slices.Clone(cluster.CertificateAuthorityData),
		},
		ExecProvider: exec,
	}
	if err := setProxy(config, cluster.ProxyURL); err != nil {
		return nil, err
	}
	return config, nil
}

// plugin returns how the plugin of a provider is run for a cluster with these extensions.
func plugin(provider *Provider, extensions []clientcmdv1.NamedExtension) (*clientcmdapi.ExecConfig, error) {
	e := &provider.ExecConfig
	exec := &clientcmdapi.ExecConfig{
		APIVersion: e.APIVersion, Command: e.Command, Args: slices.Clone(e.Args), InstallHint: e.InstallHint,
		ProvideClusterInfo: e.ProvideClusterInfo, InteractiveMode: clientcmdapi.NeverExecInteractiveMode, StdinUnavailable: true,
	}
	for _, v := range e.Env {
		exec.Env = append(exec.Env, clientcmdapi.ExecEnvVar{Name: v.Name, Value: v.Value})
	}
	for _, extension := range extensions {
		raw := extension.Extension.Raw
		switch extension.Name {
		case extensionExec:
			exec.Config = &runtime.Unknown{Raw: slices.Clone(raw), ContentType: runtime.ContentTypeJSON}
		case extensionArgs:
			if provider.ProfileSourcedCLIArgsPolicy == ArgsAppend {
				var args []string
				if err := json.Unmarshal(raw, &args); err != nil {
					return nil, fmt.Errorf("its extension %s is not a list of strings", extensionArgs)
				}
				exec.Args = append(exec.Args, args...)
			}
		case extensionEnv:
			if provider.ProfileSourcedEnvVarsPolicy != EnvIgnore {
				var env map[string]string
				if err := json.Unmarshal(raw, &env); err != nil {
					return nil, fmt.Errorf("its extension %s is not an object with strings", extensionEnv)
				}
				exec.Env = mergeEnv(exec.Env, env, provider.ProfileSourcedEnvVarsPolicy)
			}
		}
	}
	return exec, nil
}

// mergeEnv adds a profile's variables to the operator's, in an order that depends on their names alone.
func mergeEnv(env []clientcmdapi.ExecEnvVar, more map[string]string, policy EnvPolicy) []clientcmdapi.ExecEnvVar {
	for _, name := range slices.Sorted(maps.Keys(more)) {
		at := slices.IndexFunc(env, func(v clientcmdapi.ExecEnvVar) bool { return v.Name == name })
		switch {
		case at < 0:
			env = append(env, clientcmdapi.ExecEnvVar{Name: name, Value: more[name]})
		case policy == EnvReplace:
			env[at].Value = more[name]
		}
	}
	return env
}
