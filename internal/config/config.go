package config

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"isthmus.dev/isthmus/internal/boundary"
)

// Config is a file's content, compiled.
type Config struct {
	// Rules in the order of the file.
	Rules []*boundary.Rule
	// Namespaces are the counterparts of local namespaces; nil: those of the same name. Then each rule's filter excludes
	// the namespaces that may not be written on the remote side.
	Namespaces boundary.NamespacePairs
	// VirtualCluster is the local cluster's identity under vCluster's naming; the zero value: names stay.
	VirtualCluster boundary.VirtualCluster
	// CreateNamespaces says whether missing counterparts are created.
	CreateNamespaces bool
	// MassDeletion is the setting of the guard (F8).
	MassDeletion boundary.MassDeletion
	// LogLevel is how much is logged.
	LogLevel LogLevel
	// Events says whether Events are written.
	Events bool
}

// Load reads and compiles a file. Faults of its content come as Errors.
func Load(path string) (*Config, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	if err != nil {
		return nil, fmt.Errorf("reading the configuration %s: %w", path, err)
	}
	return Parse(filepath.ToSlash(path), data)
}

// Parse compiles a file's text; name is what messages call it. Its error is of type Errors, and holds all faults.
func Parse(name string, data []byte) (*Config, error) {
	r := newReport(name)
	tree := readTree(data, r)
	if tree == nil {
		return nil, r.result()
	}
	r.values[""] = place(tree)
	var file File
	v := reflect.ValueOf(&file).Elem()
	setDefaults(v)
	d := decoder{report: r}
	d.decode(tree, v, nil, Field{})
	c := compile(&file, r)
	if err := r.result(); err != nil {
		return nil, err
	}
	return c, nil
}

// Naming returns where the twins of a direction belong; local is the ID of the local cluster.
func (c *Config) Naming(direction boundary.Direction, local string) boundary.Naming {
	virtual := c.VirtualCluster != (boundary.VirtualCluster{})
	switch {
	case direction == boundary.FromRemote && virtual:
		return boundary.Import{From: []string{c.VirtualCluster.HostNamespace}}
	case direction == boundary.FromRemote:
		return boundary.Import{Pairs: c.Namespaces.Inverse()}
	case !virtual:
		return boundary.SameName{Pairs: c.Namespaces, Origin: local}
	}
	kinds := map[schema.GroupKind]boundary.Placement{}
	for _, rule := range c.Rules {
		kinds[rule.Kind.GroupKind()] = boundary.Placement{
			Shared: rule.HostNamespace, ClusterScoped: rule.ClusterScoped || rule.Direction == boundary.FromRemote && rule.Mode == boundary.ModeMirror,
			Mirrored: rule.Direction == boundary.FromRemote,
		}
	}
	return boundary.VirtualClusterNaming{Cluster: c.VirtualCluster, Kinds: kinds}
}
