package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"

	"isthmus.dev/isthmus/internal/cluster"
	"isthmus.dev/isthmus/internal/controller/winddown"
)

func newWindDownCommand() *cobra.Command {
	var (
		kubeconfig, kubeContext, selector, others string
		keep                                      []string
		timeout                                   time.Duration
	)
	cmd := &cobra.Command{
		Use:   "wind-down KIND...",
		Short: "Delete objects of controller mode and wait until their finalizers let them go",
		Long: `Delete objects of controller mode, kind by kind in the order of the arguments, and wait until they are gone. The
controller has to run, with its rights: it is what winds them down and takes the finalizers off. The chart does this
before an upgrade or an uninstall takes the rights or the controller away.

KIND is one of ` + strings.Join(winddown.Kinds, ", ") + `.

Objects of these kinds that the selector leaves out, and that hold a finalizer of Isthmus, would wait for ever once
the controller is gone. --others says what becomes of them: Refuse deletes nothing at all and names them, Leave
leaves them to a controller that comes back, Delete deletes them too.`,
		Example: `  isthmus wind-down crossings remoteclusters --selector app.kubernetes.io/instance=isthmus`,
		Args: arguments(func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return fmt.Errorf("expected at least one KIND of %s", strings.Join(winddown.Kinds, ", "))
			}
			for _, kind := range args {
				if !slices.Contains(winddown.Kinds, kind) {
					return fmt.Errorf("KIND %q: expected one of %s", kind, strings.Join(winddown.Kinds, ", "))
				}
			}
			return nil
		}),
		ValidArgs: winddown.Kinds,
		RunE: interruptible(func(ctx context.Context, cmd *cobra.Command, args []string) error {
			selected, err := labels.Parse(selector)
			if err != nil {
				return usageError(cmd, fmt.Errorf("--selector: %w", err))
			}
			policy := winddown.Others(others)
			if !slices.Contains([]winddown.Others{winddown.Refuse, winddown.Leave, winddown.Delete}, policy) {
				return usageError(cmd, fmt.Errorf("--others %q: expected Refuse, Leave or Delete", others))
			}
			c, err := cluster.Connect(cluster.Options{Role: "local", Kubeconfig: kubeconfig, Context: kubeContext, UserAgent: "isthmus/" + version()})
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			return winddown.Run(ctx, winddown.Options{
				Client: c.Dynamic(), Resources: args, Selector: selected, Keep: keep, Others: policy, Poll: time.Second, Out: cmd.ErrOrStderr(),
			})
		}),
	}
	f := cmd.Flags()
	f.StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig of the cluster that the controller serves; empty: the cluster that isthmus runs in")
	f.StringVar(&kubeContext, "context", "", "context in the kubeconfig; empty: its current one")
	f.StringVarP(&selector, "selector", "l", "", "labels of the objects to delete; empty: all")
	f.StringSliceVar(&keep, "keep", nil, "names of objects that stay although they are selected")
	f.StringVar(&others, "others", string(winddown.Refuse), "what becomes of objects that are not selected: Refuse, Leave or Delete")
	f.DurationVar(&timeout, "timeout", 4*time.Minute, "how long to wait")
	return cmd
}
