package cli

import (
	"strings"
	"testing"

	"isthmus.dev/isthmus/internal/adopt"
	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/config"
)

func TestAdoptUsageErrors(t *testing.T) {
	line := func(more ...string) []string {
		return append([]string{"adopt", "--config=../../examples/widgets.yaml", "--cluster-id=a", "--remote-id=b"}, more...)
	}
	const help = "; see isthmus adopt --help"
	for _, test := range []struct {
		args []string
		want string
	}{
		{line("--dry-run"), `required flag(s) "from" not set`},
		{line("--from=kupe"), "isthmus adopt: expected one of --dry-run, which says what would happen, and --yes, which does it" + help},
		{line("--from=kupe", "--dry-run", "--yes"), "isthmus adopt: expected one of --dry-run, which says what would happen, and --yes, which does it" + help},
		{line("--from=liqo", "--dry-run"), `isthmus adopt: --from "liqo": expected kupe, vcluster or origin=ID[/INSTANCE]` + help},
		{line("--from=kupe=x", "--dry-run"), `isthmus adopt: --from "kupe=x": expected kupe, vcluster or origin=ID[/INSTANCE]` + help},
		{line("--from=origin", "--dry-run"), `isthmus adopt: --from "origin": expected kupe, vcluster or origin=ID[/INSTANCE]` + help},
		{line("--from=origin=", "--dry-run"), `isthmus adopt: --from "origin=": expected origin=ID or origin=ID/INSTANCE, both DNS labels` + help},
		{line("--from=origin=a/B", "--dry-run"), `isthmus adopt: --from "origin=a/B": expected origin=ID or origin=ID/INSTANCE, both DNS labels` + help},
		{line("--from=kupe", "--dry-run", "--replaced-cluster=x"), "isthmus adopt: --replaced-cluster belongs to --from origin=ID: other systems' marks do not say which cluster they came from" + help},
		{line("--from=kupe", "--dry-run", "--output=yaml"), `isthmus adopt: --output "yaml": expected table or json` + help},
		{line("--from=vcluster", "--dry-run"), "../../examples/widgets.yaml: --from vcluster needs naming: VirtualCluster, which says which virtual cluster's objects they are"},
	} {
		if _, err := run(test.args...); err == nil || err.Error() != test.want {
			t.Errorf("%q: got  %v\nwant %s", test.args, err, test.want)
		}
	}
}

func TestAdoptReadsWhoseObjects(t *testing.T) {
	for from, want := range map[string]boundary.Former{
		"kupe":             {System: boundary.FormerKupe},
		"vcluster":         {System: boundary.FormerVCluster},
		"origin=old":       {System: boundary.FormerOrigin, Home: "old", Instance: "main"},
		"origin=old/other": {System: boundary.FormerOrigin, Home: "old", Instance: "other"},
	} {
		o := adoptOptions{from: from, yes: true, output: "table"}
		o.clusterID, o.remoteID, o.instance, o.namespace = "a", "b", "main", "isthmus-system"
		if former, err := o.check(); err != nil || former != want {
			t.Errorf("%s: %+v, %v", from, former, err)
		}
	}
}

func TestAdoptReports(t *testing.T) {
	rows := []adopt.Row{
		{Kind: "Widget", Source: "a/one", Twin: "b/one", Result: adopt.Adopted, Why: "is of vCluster"},
		{Kind: "Widget", Result: adopt.Failed, Why: "no answer"},
	}
	for output, want := range map[string]string{
		"table": "KIND    SOURCE  TWIN   RESULT   WHY\nWidget  a/one   b/one  adopted  is of vCluster\nWidget  -       -      failed   no answer\n1 adopted, 1 failed\n",
		"json":  `{"kind":"Widget","source":"a/one","twin":"b/one","result":"adopted","why":"is of vCluster"}` + "\n" + `{"kind":"Widget","result":"failed","why":"no answer"}` + "\n",
	} {
		var out strings.Builder
		if err := (&adoptOptions{output: output}).report(&out, rows); err != nil || out.String() != want {
			t.Errorf("%s: %v\n%s", output, err, out.String())
		}
	}
	if err := verdict(t.Context(), rows); err == nil || err.Error() != "0 refused, 1 failed: the report says why" {
		t.Error(err)
	}
	if err := verdict(t.Context(), rows[:1]); err != nil {
		t.Error(err)
	}
}

// Of a plugin's configuration adopt takes the plugin's identity; a flag that says otherwise is refused.
func TestAdoptTakesThePluginsIdentity(t *testing.T) {
	plugin := &config.Config{Plugin: config.Plugin{Name: "isthmus", ClusterID: "blue", RemoteID: "host", Instance: "default"}}
	for _, test := range []struct {
		file        *config.Config
		flag, value string
		fault       string
	}{
		{file: plugin},
		{file: plugin, flag: "cluster-id", value: "blue"},
		{file: plugin, flag: "cluster-id", value: "red", fault: `--cluster-id is "red", but the plugin runs with clusterID "blue"`},
		{file: plugin, flag: "remote-id", value: "h", fault: `--remote-id is "h", but the plugin runs with remoteID "host"`},
		{file: &config.Config{}, fault: "--cluster-id is missing"},
	} {
		o := adoptOptions{}
		o.instance = "default"
		switch test.flag {
		case "cluster-id":
			o.clusterID = test.value
		case "remote-id":
			o.remoteID = test.value
		}
		err := o.identify(test.file, func(flag string) bool { return flag == test.flag })
		if test.fault != "" {
			if err == nil || !strings.Contains(err.Error(), test.fault) {
				t.Errorf("%v, want %s", err, test.fault)
			}
		} else if err != nil || o.clusterID != "blue" || o.remoteID != "host" || o.instance != "default" {
			t.Errorf("%v: %+v", err, o.syncOptions)
		}
	}
}
