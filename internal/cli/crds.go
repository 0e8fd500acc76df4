package cli

import (
	"context"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"isthmus.dev/isthmus/config/crd"
	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/cluster"
)

func newCRDsCommand() *cobra.Command {
	var (
		apply                   bool
		kubeconfig, kubeContext string
	)
	cmd := &cobra.Command{
		Use:   "crds",
		Short: "Print or apply the definitions of controller mode's kinds",
		Long: `Print the CustomResourceDefinitions of controller mode, in the version of this binary. With --apply, apply them to the
cluster instead, by server-side apply: the chart does so before an upgrade, as Helm itself leaves definitions as they are.`,
		Example: `  isthmus crds | kubectl apply --server-side -f -
  isthmus crds --apply`,
		Args: arguments(cobra.NoArgs),
		RunE: interruptible(func(ctx context.Context, cmd *cobra.Command, _ []string) error {
			names, err := fs.Glob(crd.Files, "*.yaml")
			if err != nil {
				return err
			}
			var client *cluster.Cluster
			if apply {
				if client, err = cluster.Connect(cluster.Options{Role: "local", Kubeconfig: kubeconfig, Context: kubeContext, UserAgent: "isthmus/" + version()}); err != nil {
					return err
				}
			}
			for _, name := range names {
				text, err := crd.Files.ReadFile(name)
				if err != nil {
					return err
				}
				if !apply {
					if _, err := cmd.OutOrStdout().Write(text); err != nil {
						return err
					}
					continue
				}
				if err := applyCRD(ctx, client, text); err != nil {
					return err
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%s applied\n", name)
			}
			return nil
		}),
	}
	f := cmd.Flags()
	f.BoolVar(&apply, "apply", false, "apply them to the cluster")
	f.StringVar(&kubeconfig, "kubeconfig", "", "with --apply, kubeconfig of the cluster; empty: the cluster that isthmus runs in")
	f.StringVar(&kubeContext, "context", "", "with --apply, context in the kubeconfig; empty: its current one")
	return cmd
}

// applyCRD applies a definition.
func applyCRD(ctx context.Context, c *cluster.Cluster, text []byte) error {
	var definition unstructured.Unstructured
	if err := yaml.Unmarshal(text, &definition.Object); err != nil {
		return err
	}
	resource := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	_, err := c.Dynamic().Resource(resource).Apply(ctx, definition.GetName(), &definition, metav1.ApplyOptions{FieldManager: boundary.FieldManager, Force: true})
	if err != nil {
		return fmt.Errorf("applying the definition %s: %w", definition.GetName(), err)
	}
	return nil
}
