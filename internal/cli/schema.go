package cli

import (
	"github.com/spf13/cobra"

	"isthmus.dev/isthmus/docs/reference"
)

func newSchemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of the configuration file",
		Long: `Print the JSON Schema of the configuration file, for editors to complete and check it. With the YAML language
server, name the schema's file in the first line of the configuration:

  # yaml-language-server: $schema=sync.schema.json`,
		Example: "  isthmus schema > sync.schema.json",
		Args:    arguments(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := cmd.OutOrStdout().Write(reference.SyncSchema)
			return err
		},
	}
}
