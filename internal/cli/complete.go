package cli

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus.dev/isthmus/internal/cluster"
	"isthmus.dev/isthmus/internal/config"
	"isthmus.dev/isthmus/internal/flow"
	"isthmus.dev/isthmus/internal/plan"
)

// completionTime is how long completion may ask clusters; somebody waits with a finger on the key.
const completionTime = 3 * time.Second

// completeObjects completes KIND/NAME and its namespace: kinds come from the file, names and namespaces from the sources
// that the live clusters have.
func (o *explainOptions) completeObjects(cmd *cobra.Command) {
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 1 && !strings.Contains(args[0], "/") {
			return o.completeNames(cmd, typed, "", args[0]), cobra.ShellCompDirectiveNoFileComp
		}
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		if kind, _, ok := strings.Cut(typed, "/"); ok {
			return o.completeNames(cmd, typed, kind+"/", kind), cobra.ShellCompDirectiveNoFileComp
		}
		return o.completeKinds(cmd, typed), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
	_ = cmd.RegisterFlagCompletionFunc("in", func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		kind := ""
		if len(args) > 0 {
			kind, _, _ = strings.Cut(args[0], "/")
		}
		return o.completions(cmd, typed, func(_ *flow.Flow, namespace, _ string) string { return namespace }, kind), cobra.ShellCompDirectiveNoFileComp
	}) // fails only for a flag that does not exist
}

// completeNames returns the names of a kind's sources, in the namespace of -n if it is given, after a prefix.
func (o *explainOptions) completeNames(cmd *cobra.Command, typed, prefix, kind string) []string {
	return o.completions(cmd, typed, func(_ *flow.Flow, namespace, name string) string {
		if o.in != "" && namespace != o.in {
			return ""
		}
		return prefix + name
	}, kind)
}

// completeKinds returns the kinds that cross as the beginnings of KIND/NAME.
func (o *explainOptions) completeKinds(cmd *cobra.Command, typed string) (found []string) {
	for _, kind := range o.kindsThatCross(cmd) {
		kind := strings.ToLower(kind) + "/"
		if strings.HasPrefix(kind, strings.ToLower(typed)) && !slices.Contains(found, kind) {
			found = append(found, kind)
		}
	}
	return found
}

// kindsThatCross returns those of the file, or, with --controller, of the flows.
func (o *explainOptions) kindsThatCross(cmd *cobra.Command) (kinds []string) {
	if o.controller {
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
		defer cancel()
		_, flows := o.completionFlows(ctx, cmd)
		return plan.Kinds(flows)
	}
	file, err := config.Load(o.config)
	if err != nil {
		return nil
	}
	for _, rule := range file.Rules {
		kinds = append(kinds, rule.Kind.Kind)
	}
	return kinds
}

// completionFlows returns the flows that a run would have, as far as that can be told, and a context to ask them in.
func (o *explainOptions) completionFlows(ctx context.Context, cmd *cobra.Command) (context.Context, []*flow.Flow) {
	if o.rehearsalOptions.check(cmd) != nil {
		return ctx, nil
	}
	r, err := o.rehearse(ctx, "isthmus-explain", io.Discard)
	if err != nil {
		return ctx, nil
	}
	var flows []*flow.Flow
	for _, remote := range r.remotes {
		if o.remote == "" || remote.Name == o.remote {
			flows = append(flows, remote.Flows...)
		}
	}
	return r.context, flows
}

// completions lists the sources of a kind ("": of all) and returns what is made of them, once each. Whatever goes wrong,
// there is nothing to complete.
func (o *explainOptions) completions(cmd *cobra.Command, typed string, text func(f *flow.Flow, namespace, name string) string, kind string) (found []string) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
	defer cancel()
	ctx, flows := o.completionFlows(ctx, cmd)
	for _, f := range flows {
		ground, err := f.Ground(ctx)
		if err != nil || kind != "" && !plan.Names(f, ground.Source, kind) {
			continue
		}
		for _, scope := range ground.SourceScopes {
			for _, name := range sources(ctx, f.From.Cluster, ground.Source, scope) {
				if candidate := text(f, name[0], name[1]); candidate != "" && strings.HasPrefix(candidate, typed) && !slices.Contains(found, candidate) {
					found = append(found, candidate)
				}
			}
		}
	}
	slices.Sort(found)
	return found
}

// sources returns the namespaces and names of a kind's objects.
func sources(ctx context.Context, c *cluster.Cluster, r cluster.Resource, scope string) (names [][2]string) {
	list, err := c.Metadata().Resource(r.GroupVersionResource).Namespace(scope).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil
	}
	for _, item := range list.Items {
		names = append(names, [2]string{item.Namespace, item.Name})
	}
	return names
}
