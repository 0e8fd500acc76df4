package cli

import (
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

// The names under which the binary is a plugin of kubectl: kubectl runs the first for "kubectl isthmus", and asks the
// second for completions, with the arguments that cobra's own request for them takes.
const (
	kubectlPlugin   = "kubectl-isthmus"
	kubectlComplete = "kubectl_complete-isthmus"
)

// asPlugin lets the command line speak as a plugin of kubectl when the process was called by one of its names.
func asPlugin(root *cobra.Command, args []string) {
	called := strings.TrimSuffix(filepath.Base(args[0]), ".exe")
	if called != kubectlPlugin && called != kubectlComplete {
		return
	}
	root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl isthmus"}
	for _, cmd := range root.Commands() {
		cmd.Example = strings.ReplaceAll("\n"+cmd.Example, "\n  isthmus ", "\n  kubectl isthmus ")[1:]
	}
	if called == kubectlComplete {
		root.SetArgs(append([]string{cobra.ShellCompRequestCmd}, args[1:]...))
	}
}
