// Package cli is the command line: a file a subcommand.
package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"isthmus.dev/isthmus/internal/vcluster"
)

// Main runs the command line of the process and exits. A process that vCluster started is its plugin instead.
func Main() {
	if vcluster.Asked() {
		vcluster.Serve(version())
		return
	}
	root := newRootCommand()
	asPlugin(root, os.Args)
	err := root.Execute()
	if code := exitCode(0); errors.As(err, &code) {
		os.Exit(int(code))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(exitError)
	}
}

// newRootCommand returns the whole command line. What a command returns as an error is for the user to read: Main prints
// it, and no usage, which would bury it.
func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "isthmus",
		Short:         "Carry Kubernetes objects between clusters, with one owner for every field",
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return usageError(cmd, err) })
	root.AddCommand(
		newAdoptCommand(),
		newCRDsCommand(),
		newExplainCommand(),
		newPlanCommand(),
		newRBACCommand(),
		newSchemaCommand(),
		newStatusCommand(),
		newSyncCommand(), newControllerCommand(),
		newValidateCommand(),
		newVersionCommand(),
		newWindDownCommand(),
	)
	return root
}

// interruptible makes a command whose ctx ends when the process is told to stop (SIGINT, SIGTERM).
func interruptible(run func(ctx context.Context, cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
		defer stop()
		return run(ctx, cmd, args)
	}
}

// usageError is an error of how a command was called.
func usageError(cmd *cobra.Command, err error) error {
	return fmt.Errorf("%s: %w; see %s --help", cmd.CommandPath(), err, cmd.CommandPath())
}

// arguments makes errors about arguments say whose they are.
func arguments(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return usageError(cmd, err)
		}
		return nil
	}
}
