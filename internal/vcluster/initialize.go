package vcluster

import (
	"encoding/json"
	"errors"
	"fmt"

	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/config"
)

// Initialization is what vCluster tells a plugin first, as JSON; the parts that nobody here needs are left out.
type Initialization struct {
	// SyncerConfig is a kubeconfig of the virtual cluster, WorkloadConfig one of its host; PhysicalClusterConfig is what the
	// latter was called before.
	SyncerConfig          []byte `json:"syncerConfig,omitempty"`
	WorkloadConfig        []byte `json:"workloadConfig,omitempty"`
	PhysicalClusterConfig []byte `json:"physicalClusterConfig,omitempty"`
	// Config is the whole vcluster.yaml, as JSON, with the virtual cluster's name and host namespace.
	Config []byte `json:"config,omitempty"`
	// CurrentNamespace is the host namespace too.
	CurrentNamespace string `json:"currentNamespace,omitempty"`
}

// vclusterConfig is what matters of vCluster's configuration.
type vclusterConfig struct {
	Name          string `json:"name"`
	HostNamespace string `json:"hostNamespace"`
	Sync          struct {
		ToHost struct {
			Namespaces struct {
				Enabled bool `json:"enabled"`
			} `json:"namespaces"`
		} `json:"toHost"`
	} `json:"sync"`
	Experimental struct {
		MultiNamespaceMode struct {
			Enabled bool `json:"enabled"`
		} `json:"multiNamespaceMode"`
	} `json:"experimental"`
}

// surroundings are what the plugin finds itself in.
type surroundings struct {
	cluster       boundary.VirtualCluster
	virtual, host []byte // kubeconfigs
	// manyNamespaces: vCluster gives virtual namespaces host namespaces of their own.
	manyNamespaces bool
}

// read reads what vCluster tells. What it returns holds what could be read, also with an error.
func read(text string) (s surroundings, err error) {
	var told Initialization
	if err := json.Unmarshal([]byte(text), &told); err != nil {
		return s, fmt.Errorf("reading what vCluster says at the start: %w", err)
	}
	s.virtual, s.host = told.SyncerConfig, told.WorkloadConfig
	if len(s.host) == 0 {
		s.host = told.PhysicalClusterConfig
	}
	var c vclusterConfig
	if err := json.Unmarshal(told.Config, &c); err != nil {
		return s, fmt.Errorf("reading the vcluster.yaml that vCluster hands over: %w", err)
	}
	s.cluster = boundary.VirtualCluster{Name: c.Name, HostNamespace: c.HostNamespace}
	if c.HostNamespace == "" {
		s.cluster.HostNamespace = told.CurrentNamespace
	}
	s.manyNamespaces = c.Sync.ToHost.Namespaces.Enabled || c.Experimental.MultiNamespaceMode.Enabled
	switch {
	case s.cluster.Name == "" || s.cluster.HostNamespace == "":
		return s, errors.New("vCluster does not say its name and its host namespace: expected name and hostNamespace in the configuration that it hands over, as version 0.20 and later do")
	case len(s.virtual) == 0 || len(s.host) == 0:
		return s, errors.New("vCluster hands over no kubeconfigs: expected syncerConfig and workloadConfig")
	}
	return s, nil
}

// fits returns an error when a configuration can't run in the surroundings.
func (s surroundings) fits(c *config.Config) error {
	return c.Fits(s.manyNamespaces)
}
