package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"

	"go.yaml.in/yaml/v3"
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
	// Withdrawn are local namespaces that somebody was seen to take out of Namespaces: their twins go as those of sources
	// that were seen to be deleted, and the guard holds none (F8). A file can't say so. They are named until the twins are
	// gone, also after a restart.
	Withdrawn []string
	// Unready are those of Namespaces whose counterparts must not be touched for now: what is there stays as it is. A file
	// can't say so.
	Unready []string
	// Waiting names rules that stand, although what they carry can't be said for now: because nobody told yet how their kind
	// is served, or because they were changed into something that is refused. What they have carried stays as it is. A file
	// can't say so.
	Waiting []string
	// Confined: copies of remote objects go into the counterparts of their namespaces alone, whatever their annotations say.
	// No file says so: it is for configurations that others than the writers of a file take part in.
	Confined bool
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
	// Plugin is what a vCluster plugin is told besides.
	Plugin Plugin
	// Hash tells the text that it was loaded from apart from others.
	Hash string
}

// Plugin are the settings of a vCluster plugin.
type Plugin struct {
	// In and Name say where the configuration is in a vcluster.yaml: plugin or plugins, and the plugin's name.
	In, Name string
	// AnyVirtualCluster: the configuration does not say which virtual cluster it is for, and VirtualCluster stands for any.
	AnyVirtualCluster             bool
	FailurePolicy                 FailurePolicy
	Listen                        string
	ClusterID, RemoteID, Instance string
}

// Load reads and compiles a file: one of our own, or a vcluster.yaml with the configuration of a plugin. Faults of its
// content come as Errors.
func Load(path string) (*Config, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, err
	}
	c, err := Parse(filepath.ToSlash(path), data)
	if err != nil {
		return nil, err
	}
	c.Hash = hashOf(data)
	return c, nil
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	if err != nil {
		return nil, fmt.Errorf("reading the configuration %s: %w", path, err)
	}
	return data, nil
}

// hashOf returns the Config.Hash of a text.
func hashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}

// Parse compiles a file's text; name is what messages call it. Its error is of type Errors, and holds all faults.
func Parse(name string, data []byte) (*Config, error) {
	r := newReport(name)
	tree := readTree(data, r)
	if tree == nil {
		return nil, r.result()
	}
	if isVClusterFile(tree) {
		in, plugin, found := findPlugin(tree, r)
		if found == nil {
			return nil, r.result()
		}
		c, err := read(found, r, &boundary.VirtualCluster{})
		if c != nil {
			c.Plugin.In, c.Plugin.Name = in, plugin
			if err := c.Fits(vclusterKeepsNames(tree)); err != nil {
				r.add(place(found), "", "%v", err)
				return nil, r.result()
			}
		}
		return c, err
	}
	return read(tree, r, nil)
}

// ParsePlugin compiles the configuration of the plugin of a virtual cluster. Its error is of type Errors, and holds all
// faults.
func ParsePlugin(name string, data []byte, cluster boundary.VirtualCluster) (*Config, error) {
	r := newReport(name)
	tree := readTree(data, r)
	if tree == nil {
		return nil, r.result()
	}
	c, err := read(tree, r, &cluster)
	if c != nil {
		c.Hash = hashOf(data)
	}
	return c, err
}

// read compiles a tree; plugin is the virtual cluster whose plugin it is for, empty for any. nil: for no plugin.
func read(tree *yaml.Node, r *report, plugin *boundary.VirtualCluster) (*Config, error) {
	r.values[""] = place(tree)
	var file File
	v := reflect.ValueOf(&file).Elem()
	setDefaults(v)
	d := decoder{report: r, plugin: plugin != nil}
	d.decode(tree, v, nil, Field{})
	c := compile(&file, r, plugin)
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
		return boundary.Import{Pairs: c.Namespaces.Inverse(), Confined: c.Confined}
	case !virtual:
		return boundary.SameName{Pairs: c.Namespaces, Origin: local, Kinds: c.placements()}
	}
	return boundary.VirtualClusterNaming{Cluster: c.VirtualCluster, Kinds: c.placements(), Copied: c.copied()}
}

// copied returns the kinds of which objects come from the remote side as copies, under names of their own.
func (c *Config) copied() map[schema.GroupKind]bool {
	kinds := map[schema.GroupKind]bool{}
	for _, rule := range c.Rules {
		if rule.Direction == boundary.FromRemote && rule.Mode != boundary.ModeMirror {
			kinds[rule.Kind.GroupKind()] = true
		}
	}
	return kinds
}

// placements says where the objects of each kind are that a reference may name. A copy of a host's object may have any
// name, so only a mirror stands for it, and only where no local objects of the kind cross: what a tenant refers to by the
// name of its own must not become something of the host's. Of several host namespaces it is the virtual cluster's own,
// unless the object itself tells.
func (c *Config) placements() boundary.Kinds {
	kinds := boundary.Kinds{}
	for _, rule := range c.Rules {
		kind, mirrored := rule.Kind.GroupKind(), rule.Direction == boundary.FromRemote
		if mirrored && rule.Mode != boundary.ModeMirror {
			continue
		}
		known, several := kinds[kind]
		placement := boundary.Placement{
			Shared: rule.HostNamespace, ClusterScoped: rule.ClusterScoped || known.ClusterScoped, Mirrored: mirrored, Roams: known.Roams,
		}
		switch {
		case !several, known.Mirrored:
		case mirrored:
			placement.Mirrored, placement.Shared = false, known.Shared
		case known.Shared != rule.HostNamespace:
			placement.Shared, placement.Roams = "", true
		}
		kinds[kind] = placement
	}
	return kinds
}
