package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"isthmus.dev/isthmus/internal/config"
)

func newValidateCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "validate FILE...",
		Short: "Check configuration files",
		Long:  "Check configuration files, and print every fault with its file, line and column. No cluster is asked.",
		Example: `  isthmus validate sync.yaml
  isthmus validate clusters/*.yaml`,
		Args: arguments(func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("expected the files to check")
			}
			return nil
		}),
		RunE: func(cmd *cobra.Command, args []string) error {
			var faults []error
			for _, path := range args {
				c, err := config.Load(path)
				if err != nil {
					faults = append(faults, err)
					continue
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", path, count(len(c.Rules), "rule"))
			}
			return errors.Join(faults...)
		},
	}
}

// count is a number of things in words.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
