package vcluster

import (
	"encoding/json"
	"strings"
	"testing"

	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/config"
)

// told is what vCluster says at the start, with what a test changes.
func told(t *testing.T, change func(*Initialization)) string {
	t.Helper()
	i := Initialization{
		SyncerConfig: []byte("virtual"), WorkloadConfig: []byte("host"), Config: []byte(`{"name":"shop","hostNamespace":"vcluster-acme--shop"}`),
		CurrentNamespace: "vcluster-acme--shop",
	}
	if change != nil {
		change(&i)
	}
	text, err := json.Marshal(i)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestF5_WhatVClusterSaysAtTheStart(t *testing.T) {
	shop := boundary.VirtualCluster{Name: "shop", HostNamespace: "vcluster-acme--shop"}
	type want struct {
		cluster        boundary.VirtualCluster
		host           string
		manyNamespaces bool
		fault          string
	}
	tests := []struct {
		name   string
		change func(*Initialization)
		want   want
	}{
		{"all", nil, want{shop, "host", false, ""}},
		{"as earlier versions", func(i *Initialization) {
			i.PhysicalClusterConfig, i.WorkloadConfig, i.Config = i.WorkloadConfig, nil, []byte(`{"name":"shop"}`)
		}, want{shop, "host", false, ""}},
		{"several host namespaces", func(i *Initialization) {
			i.Config = []byte(`{"name":"shop","hostNamespace":"vcluster-acme--shop","sync":{"toHost":{"namespaces":{"enabled":true,"mappings":{"byName":{"a":"b"}}}}}}`)
		}, want{shop, "host", true, ""}},
		{"several host namespaces, as earlier versions", func(i *Initialization) {
			i.Config = []byte(`{"name":"shop","experimental":{"multiNamespaceMode":{"enabled":true}}}`)
		}, want{shop, "host", true, ""}},
		{"no vcluster.yaml", func(i *Initialization) { i.Config = nil }, want{host: "host", fault: "reading the vcluster.yaml that vCluster hands over"}},
		{"another vcluster.yaml", func(i *Initialization) { i.Config = []byte(`{"sync":[]}`) }, want{host: "host", fault: "reading the vcluster.yaml that vCluster hands over"}},
		{"no name", func(i *Initialization) { i.Config = []byte("{}") },
			want{boundary.VirtualCluster{HostNamespace: "vcluster-acme--shop"}, "host", false, "vCluster does not say its name and its host namespace"}},
		{"no namespace", func(i *Initialization) { i.Config, i.CurrentNamespace = []byte(`{"name":"shop"}`), "" },
			want{boundary.VirtualCluster{Name: "shop"}, "host", false, "vCluster does not say its name and its host namespace"}},
		{"no host", func(i *Initialization) { i.WorkloadConfig = nil }, want{shop, "", false, "vCluster hands over no kubeconfigs"}},
		{"no virtual cluster", func(i *Initialization) { i.SyncerConfig = nil }, want{shop, "host", false, "vCluster hands over no kubeconfigs"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := read(told(t, tt.change))
			fault := ""
			if err != nil {
				fault = err.Error()
			}
			if tt.want.fault == "" && fault != "" || !strings.HasPrefix(fault, tt.want.fault) {
				t.Errorf("the fault is %q, expected %q", fault, tt.want.fault)
			}
			if have := (want{s.cluster, string(s.host), s.manyNamespaces, tt.want.fault}); have != tt.want {
				t.Errorf("it reads %+v, expected %+v", have, tt.want)
			}
		})
	}
}

// Where vCluster keeps names, only what keeps them too fits.
func TestF5_SeveralHostNamespaces(t *testing.T) {
	many := surroundings{cluster: boundary.VirtualCluster{Name: "shop", HostNamespace: "vcluster-acme--shop"}, manyNamespaces: true}
	for text, want := range map[string]string{
		"": "sync.toHost.namespaces in its configuration", "naming: SameName\nnamespaces: {team-a: acme-team-a}\n": "",
	} {
		c, err := config.ParsePlugin("f", []byte("version: v1\nsyncResources: [{apiVersion: v1, kind: Secret, direction: toHost}]\n"+text), many.cluster)
		if err != nil {
			t.Fatal(err)
		}
		if err := many.fits(c); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
		if err := (surroundings{cluster: many.cluster}).fits(c); err != nil {
			t.Errorf("%q in one host namespace: %v", text, err)
		}
	}
}
