package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/config"
	"isthmus.dev/isthmus/internal/rbac"
)

// rbacFlags are the flags of isthmus rbac.
type rbacFlags struct {
	config, side, user, serviceAccount, namespace, instance, name, kubeconfig, format string
	leaderElect                                                                       bool
	controller                                                                        controllerFlags
}

// The formats.
const (
	formatManifests = "manifests"
	formatVCluster  = "vcluster"
)

func newRBACCommand() *cobra.Command {
	var f rbacFlags
	cmd := &cobra.Command{
		Use:   "rbac --config FILE --side local|remote | --config FILE --format vcluster | --crossings FILE --side local|remote | --consumers FILE --side provider | --installations FILE… --side local|remote",
		Short: "Print the least roles that the rules of a configuration file need, Crossings or Installations",
		Long: `Print the Roles and ClusterRoles that the rules of a configuration file need on one side, and no more, with their
bindings. Rules that stay in namespaces that can be listed get Roles there; these namespaces must exist.

With --format vcluster, print instead the part of a vcluster.yaml that gives the same to a plugin of vCluster on the
host. The file may be a vcluster.yaml or a plugin's configuration by itself.

With --crossings, print what isthmus controller needs for the Crossings among some manifests. On the remote side that is
for a cluster that gives no namespaces on request: one that does grants what its Consumer allows. What the controller of such a
provider needs itself is printed with --consumers. --endpoints adds, to either, what the controller of endpoints needs.

With --installations, print what isthmus controller --controllers=installation needs for the Installations in some files: with
--side local on the hub, with --side remote on the member that they go to. The files have the ConfigMaps and Secrets with the
manifests, too, or these are read from the hub with --kubeconfig. Where one of them is there twice, as before and after an
upgrade, the roles are enough for both.`,
		Example: `  isthmus rbac --config sync.yaml --side local | kubectl apply -f -
  isthmus rbac --config sync.yaml --side remote --subject-user tenant-42 | kubectl --context host apply -f -
  isthmus rbac --config vcluster.yaml --format vcluster > rbac.yaml
  kubectl get crossings -o yaml | isthmus rbac --crossings - --side local
  isthmus rbac --installations knative.yaml --side remote --subject-user hub | kubectl --context apac-1 apply -f -`,
		Args: arguments(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.config, "config", "", "the configuration file (required)")
	flags.StringVar(&f.side, "side", "", "the cluster to print roles for: local, where the sources are, remote, or provider, with --consumers or --endpoints (required)")
	flags.StringVar(&f.user, "subject-user", "", "the user who gets the roles")
	flags.StringVar(&f.serviceAccount, "subject-serviceaccount", "isthmus-system/isthmus", "the service account that gets the roles, as NAMESPACE/NAME")
	flags.StringVar(&f.namespace, "namespace", "isthmus-system", "the namespace of Isthmus's own objects on the local side")
	flags.StringVar(&f.instance, "instance", "default", "the name of this Isthmus among those of the local cluster")
	flags.BoolVar(&f.leaderElect, "leader-elect", false, "add the rights that isthmus sync --leader-elect needs")
	flags.StringVar(&f.name, "name", "", "the name of the roles, to tell apart those of several Isthmuses that share a cluster (default isthmus-INSTANCE-SIDE)")
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "look the resources' names up in this kubeconfig's cluster; without it they are guessed from the kinds. With --installations, read from it the ConfigMaps and Secrets that the files do not have")
	flags.StringVar(&f.format, "format", formatManifests, "what to print: manifests to apply, or vcluster for a part of a vcluster.yaml")
	f.controller.add(flags)
	cmd.MarkFlagsMutuallyExclusive("subject-user", "subject-serviceaccount")
	cmd.MarkFlagsMutuallyExclusive("config", "crossings", "consumers", "installations")
	cmd.MarkFlagsMutuallyExclusive("format", "installations")
	for _, flag := range []string{"format", "kubeconfig"} { // Crossings and Consumers name resources, not kinds
		cmd.MarkFlagsMutuallyExclusive(flag, "crossings")
		cmd.MarkFlagsMutuallyExclusive(flag, "consumers")
	}
	return cmd
}

func (f rbacFlags) run(cmd *cobra.Command) error {
	options, err := f.options()
	if err != nil {
		return usageError(cmd, err)
	}
	if f.controller.asked() {
		if !cmd.Flags().Changed("instance") {
			options.Instance = controllerInstance
		}
		return f.controller.print(cmd, f.kubeconfig, options)
	}
	c, err := config.Load(f.config)
	if err != nil {
		return err
	}
	lookup, err := f.lookup()
	if err != nil {
		return err
	}
	var guessed []string
	options.Rules, options.CreateNamespaces, options.Events = c.Rules, c.CreateNamespaces, c.Events
	options.Naming = func(direction boundary.Direction) boundary.Naming { return c.Naming(direction, "") }
	options.Resources = func(kind schema.GroupVersionKind) (rbac.Resource, error) {
		resource, err := lookup(kind)
		if err == nil && resource.Guessed {
			guessed = append(guessed, fmt.Sprintf("%s (%s)", resource.Name, kind.GroupKind()))
		}
		return resource, err
	}
	if f.format == formatVCluster {
		return f.printPlugin(cmd, c, options, &guessed)
	}
	if err := c.Plugin.Known(); err != nil && options.Side == rbac.Remote {
		return fmt.Errorf("%s: %w; --format vcluster needs none", f.config, err)
	}
	objects, err := rbac.Generate(options)
	if err != nil {
		return fmt.Errorf("making roles for %s: %w", f.config, err)
	}
	comments := append([]string{fmt.Sprintf("What Isthmus needs on the %s side for %s.", f.side, count(len(c.Rules), "rule"))}, guesses(guessed)...)
	if options.Side == rbac.Remote && c.CreateNamespaces {
		comments = append(comments, "Rights hold in all namespaces because of createNamespaces: a Role can't be there before its namespace.")
	}
	if namespaces := rbac.RoleNamespaces(objects); len(namespaces) > 0 {
		comments = append(comments, "Roles go to these namespaces, which must exist: "+strings.Join(namespaces, ", ")+".")
	}
	return rbac.Print(cmd.OutOrStdout(), comments, objects)
}

// guesses says which resources' names were guessed.
func guesses(guessed []string) []string {
	if len(guessed) == 0 {
		return nil
	}
	return []string{
		"These resources' names are guessed from their kinds, which are taken for namespaced unless a rule says clusterScoped: " + strings.Join(guessed, ", ") + ".",
		"Check them, or pass --kubeconfig of a cluster that serves these kinds.",
	}
}

// printPlugin prints what a vcluster.yaml needs.
func (f rbacFlags) printPlugin(cmd *cobra.Command, c *config.Config, o rbac.Options, guessed *[]string) error {
	in, name := c.Plugin.In, c.Plugin.Name
	if name == "" {
		in, name = "plugin", config.PluginName
	}
	if o.Home = c.VirtualCluster.HostNamespace; o.Home == "" {
		o.Home = config.AnyHostNamespace
	}
	values, err := rbac.PluginValues(o, in, name)
	if err != nil {
		return fmt.Errorf("making roles for %s: %w", f.config, err)
	}
	text, err := yaml.Marshal(values)
	if err != nil {
		return err
	}
	comments := append([]string{fmt.Sprintf("What the plugin %s needs on the host for %s.", name, count(len(c.Rules), "rule"))}, guesses(*guessed)...)
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "# %s\n%s", strings.Join(comments, "\n# "), text)
	return err
}

// options checks the flags.
func (f rbacFlags) options() (rbac.Options, error) {
	o := rbac.Options{Side: rbac.Side(f.side), Namespace: f.namespace, Instance: f.instance, Name: f.name, LeaderElect: f.leaderElect, Subject: rbac.Subject{User: f.user}}
	if f.config == "" && !f.controller.asked() {
		return o, errors.New("--config is missing: expected the configuration file, or --crossings, --consumers or --installations")
	}
	if err := f.controller.check(f.side); err != nil {
		return o, err
	}
	switch {
	case f.format != formatManifests && f.format != formatVCluster:
		return o, fmt.Errorf("--format %q: expected %s or %s", f.format, formatManifests, formatVCluster)
	case f.format == formatVCluster && o.Side == rbac.Local:
		return o, errors.New("--side local: a plugin is the administrator of the virtual cluster, and --format vcluster is about its host: remove it")
	case f.format == formatVCluster:
		o.Side = rbac.Remote
	}
	if o.Side != rbac.Local && o.Side != rbac.Remote && (f.side != sideProvider || f.controller.consumers == "" && !f.controller.endpoints) {
		return o, fmt.Errorf("--side %q: expected local or remote", f.side)
	}
	for flag, value := range map[string]string{"--namespace": f.namespace, "--instance": f.instance} {
		if len(validation.IsDNS1123Label(value)) > 0 {
			return o, fmt.Errorf("%s %q: expected a name of lower-case letters, digits and -", flag, value)
		}
	}
	if len(content.IsPathSegmentName(f.name)) > 0 {
		return o, fmt.Errorf("--name %q: expected a name without / and %%", f.name)
	}
	if f.user == "" {
		namespace, name, ok := strings.Cut(f.serviceAccount, "/")
		if !ok || len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0 {
			return o, fmt.Errorf("--subject-serviceaccount %q: expected NAMESPACE/NAME", f.serviceAccount)
		}
		o.Subject.Namespace, o.Subject.ServiceAccount = namespace, name
	}
	return o, nil
}

// lookup returns how to find the resource of a kind.
func (f rbacFlags) lookup() (func(schema.GroupVersionKind) (rbac.Resource, error), error) {
	if f.kubeconfig == "" {
		return func(kind schema.GroupVersionKind) (rbac.Resource, error) { return rbac.Guess(kind), nil }, nil
	}
	restConfig, err := clientcmd.BuildConfigFromFlags("", f.kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	client, err := discovery.NewDiscoveryClientForConfig(restConfig)
	if err != nil {
		return nil, fmt.Errorf("reaching the cluster of %s: %w", f.kubeconfig, err)
	}
	return rbac.Discover(client), nil
}
