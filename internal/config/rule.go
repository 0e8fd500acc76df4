package config

import (
	"errors"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"

	"isthmus.dev/isthmus/internal/boundary"
)

// CompileRule compiles one entry of syncResources that is in no file: its keys, and values as YAML has them. So whatever
// says what crosses is checked, and defaulted, as a file is. The error names the keys at fault.
func CompileRule(entry map[string]any) (*boundary.Rule, error) {
	const in = "rule"
	text, err := yaml.Marshal(map[string]any{
		"version": "v1", "namespaces": map[string]string{"any": "any"}, "syncResources": []any{entry},
	})
	if err != nil {
		return nil, fmt.Errorf("writing the rule as YAML: %w", err)
	}
	c, err := Parse(in, text)
	if faults := (Errors)(nil); errors.As(err, &faults) {
		lines := make([]string, len(faults))
		for i, fault := range faults {
			lines[i] = strings.TrimPrefix(strings.TrimPrefix(fault.Path, pathString(entryPath(0))), ".") + ": " + fault.Message
		}
		return nil, errors.New(strings.Join(lines, "; "))
	}
	if err != nil {
		return nil, err
	}
	return c.Rules[0], nil
}
