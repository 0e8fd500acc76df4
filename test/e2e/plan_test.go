//go:build unix

package e2e

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"isthmus.dev/isthmus/internal/plan"
	"isthmus.dev/isthmus/test/harness"
)

// planned runs isthmus plan and reads what it says.
func planned(e *harness.Env, config string, want int, flags ...string) *plan.Plan {
	e.T.Helper()
	out, code := e.Plan(config, append(flags, "-o", "json")...)
	if code != want {
		e.T.Fatalf("isthmus plan: code %d, expected %d\n%s", code, want, out)
	}
	p := &plan.Plan{}
	if err := json.Unmarshal([]byte(out), p); err != nil {
		e.T.Fatalf("isthmus plan: %v\n%s", err, out)
	}
	return p
}

// entryFor returns what a plan says about a source.
func entryFor(e *harness.Env, p *plan.Plan, namespace, name string) plan.Entry {
	e.T.Helper()
	for _, entry := range p.Entries {
		if entry.Source.Namespace == namespace && entry.Source.Name == name {
			return entry
		}
	}
	e.T.Errorf("the plan says nothing of %s/%s: %+v", namespace, name, p.Entries)
	return plan.Entry{}
}

// plannedWrites returns the writes of a plan as "side verb resource/subresource namespace/name manager" lines, sorted.
func plannedWrites(p *plan.Plan) (lines []string) {
	for _, entry := range p.Entries {
		for _, w := range entry.Writes {
			if w.Refused != "" {
				continue
			}
			verb, manager := "patch", "isthmus"
			switch w.Action {
			case "delete":
				verb, manager = "delete", ""
			case plan.HandOver:
				manager = "isthmus-handover"
			}
			if w.Subresource != "" {
				manager = "" // the writer's own
			}
			lines = append(lines, writeLine(w.Side, verb, w.Resource, w.Subresource, w.Namespace, w.Name, manager))
		}
	}
	slices.Sort(lines)
	return lines
}

// auditedWrites returns the writes that happened, alike.
func auditedWrites(e *harness.Env, since time.Time) (lines []string) {
	for _, r := range e.Writes(since) {
		if r.Code() >= 300 {
			continue
		}
		resource := r.ObjectRef.Resource
		if r.ObjectRef.APIGroup != "" {
			resource += "." + r.ObjectRef.APIGroup
		}
		manager := ""
		if r.Verb == "patch" && r.ObjectRef.Subresource == "" {
			_, manager, _ = strings.Cut(r.RequestURI, "fieldManager=")
			manager, _, _ = strings.Cut(manager, "&")
		}
		namespace := r.ObjectRef.Namespace
		if resource == "namespaces" {
			namespace = ""
		}
		lines = append(lines, writeLine(r.Side, r.Verb, resource, r.ObjectRef.Subresource, namespace, r.ObjectRef.Name, manager))
	}
	slices.Sort(lines)
	return lines
}

func writeLine(side, verb, resource, subresource, namespace, name, manager string) string {
	return strings.TrimSpace(fmt.Sprintf("%s %s %s %s/%s %s", side, verb, strings.TrimSuffix(resource+"/"+subresource, "/"), namespace, name, manager))
}

// What isthmus plan says of everything that can be the matter is what isthmus sync then does, write by write.
func TestD2_APlanIsWhatARunDoes(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	group := ownGroup(e)
	resource := "widgets." + group
	e.Local.Apply(harness.WidgetCRDWith(group, "localOnly: {type: string}"))
	e.Remote.Apply(strings.Replace(harness.WidgetCRD(group), "size: {type: integer}", "size: {type: integer, maximum: 100}", 1))
	ns, host, second, secondHost := e.Namespace("a"), e.Namespace("a-host"), e.Namespace("b"), e.ID+"-b-host"
	paused, fresh := e.Namespace("p"), e.Namespace("f")
	pairs := fmt.Sprintf("{%s: %s, %s: %s, %s: %s, %s: %s}", ns, host, second, host, paused, paused, fresh, secondHost)
	head := "version: v1\nlog_level: trace\ncreateNamespaces: true\nnamespaces: " + pairs + "\nsyncResources:\n"
	rule := func(name, selector string, more ...string) string {
		text := fmt.Sprintf("- name: %s\n  apiVersion: %s/v1\n  kind: Widget\n  direction: toHost\n  statusSync: true\n  selector: {matchLabels: {of: %s}}\n", name, group, selector)
		for _, line := range more {
			text += "  " + line + "\n"
		}
		return text
	}
	made := func(namespace, name, of, spec string) {
		e.T.Helper()
		e.Local.Create(strings.Replace(groupWidget(group, namespace, name, spec), "metadata: {", "metadata: {labels: {of: "+of+"}, ", 1))
	}
	config := func(rules ...string) string {
		return head + strings.Join(rules, "") + "- {apiVersion: v1, kind: ConfigMap, direction: toHost, selector: {matchLabels: {of: guarded}}}\n"
	}
	configMap := func(name string) string {
		return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, namespace: %s, labels: {of: guarded}}\ndata: {a: b}\n", name, paused)
	}

	// What an earlier run left.
	for _, name := range []string{"in-step", "drifted", "answered", "left", "gone", "deselected", "moved", "again"} {
		made(ns, name, "keep", "{size: 1, replicas: 2}")
	}
	made(ns, "added-to", "exclusive", "{size: 1}")
	made(ns, "orphaned", "orphan", "{size: 1}")
	made(ns, "wound-down", "remove", "{size: 1}")
	for _, name := range numbered(6) {
		e.Local.Create(configMap(name))
	}
	exclusive := rule("exclusive", "exclusive", "specOwnership: Exclusive")
	first := e.Start(config(rule("keep", "keep"), exclusive, rule("orphan", "orphan", "onRemoval: Orphan"), rule("remove", "remove")))
	e.Eventually(func() error {
		if n := len(e.Remote.List(resource, host, "isthmus.dev/origin")); n != 11 {
			return fmt.Errorf("%d twins", n)
		}
		if n := len(e.Remote.List("configmaps", paused, "isthmus.dev/origin")); n != 6 {
			return fmt.Errorf("%d copies", n)
		}
		return nil
	})
	for _, name := range []string{"answered", "left", "deselected"} {
		e.Remote.SetStatus(resource, host, name, "{ready: true}")
		e.Eventually(func() error { return is(e.Local.Get(resource, ns, name), true, "status", "ready") })
	}
	first.Stop()

	// What happened while it was down.
	e.Local.Patch(resource, ns, "drifted", "spec: {size: 2, note: new}")
	e.Remote.Patch(resource, host, "drifted", "spec: {color: blue}")
	e.Remote.SetStatus(resource, host, "answered", "{ready: false, phase: Down}")
	e.Remote.Patch(resource, host, "added-to", "spec: {data: theirs}")
	e.Local.Delete(resource, ns, "gone")
	e.Local.Delete(resource, ns, "again")
	made(ns, "again", "keep", "{size: 3}")
	e.Local.Patch(resource, ns, "deselected", "metadata: {labels: {of: nothing}}")
	made(ns, "new", "keep", "{size: 1}")
	made(ns, "blocked", "keep", "{size: 1}")
	e.Remote.PatchAs("helm", types.ApplyPatchType, resource, host, "blocked",
		groupWidget(group, host, "blocked", "{size: 9}"))
	e.Remote.Patch(resource, host, "blocked", `metadata: {annotations: {meta.helm.sh/release-name: shop}}`)
	made(second, "in-step", "keep", "{size: 7}")
	made(ns, "odd", "keep", "{size: 1, localOnly: x}")
	made(ns, "invalid", "keep", "{size: 500}")
	made(fresh, "in-a-new-namespace", "keep", "{size: 1}")
	made(fresh, "another", "keep", "{size: 1}")
	made(ns, "unselected", "nothing", "{size: 1}")
	e.Local.SetStatus(resource, ns, "new", "{ready: maybe}")
	e.Local.DeleteAll("configmaps", paused)

	// The remote side takes spec.replicas over, and two rules are gone.
	now := config(rule("keep", "keep", "hostOwnedFields: [spec.replicas]"), exclusive)
	began := time.Now()
	p := planned(e, now, 2)
	if writes := e.Writes(began); len(writes) > 0 {
		t.Errorf("isthmus plan wrote: %v", writes)
	}
	for name, want := range map[string]string{
		"drifted": "hand-over apply", "answered": "hand-over apply return-status", "gone": "delete", "again": "delete create",
		"deselected": "clear-status delete", "new": "create clear-status", "odd": "create", "orphaned": "release", "wound-down": "delete",
		"in-step": "hand-over apply", "added-to": "remove-fields",
	} {
		var actions []string
		for _, w := range entryFor(e, p, ns, name).Writes {
			actions = append(actions, w.Action)
		}
		if got := strings.Join(actions, " "); got != want {
			t.Errorf("%s: %q is planned, expected %q", name, got, want)
		}
	}
	paths := func(name, action string) (paths []string) {
		for _, w := range entryFor(e, p, ns, name).Writes {
			for _, c := range w.Changes {
				if w.Action == action {
					paths = append(paths, c.Path)
				}
			}
		}
		return paths
	}
	if got := fmt.Sprint(paths("drifted", "apply")); got != "[spec.color spec.note spec.size]" {
		t.Errorf("drifted: the changed paths are %s", got)
	}
	if got := fmt.Sprint(paths("in-step", "hand-over")); got != "[spec.replicas]" {
		t.Errorf("in-step: handed over are %s", got)
	}
	if got := fmt.Sprint(paths("answered", "return-status")); got != "[status.phase status.ready]" {
		t.Errorf("answered: the status changes at %s", got)
	}
	for _, c := range []struct {
		namespace, name string
		outcome         plan.Outcome
		texts           []string
	}{
		{ns, "blocked", plan.Conflict, []string{"was not created by this Isthmus", "Helm release shop", "helm"}},
		{second, "in-step", plan.Conflict, []string{"is the twin of " + ns + "/in-step"}},
		{paused, numbered(1)[0], plan.Hold, []string{"6 of 6 twins would go"}},
		{ns, "odd", plan.Change, []string{"left out: spec.localOnly"}},
		{ns, "invalid", plan.Refused, []string{"should be less than or equal to 100"}},
	} {
		entry := entryFor(e, p, c.namespace, c.name)
		text := fmt.Sprintf("%s %v %+v %v", entry.Why, entry.With, entry.Writes, entry.Warnings)
		if entry.Outcome != c.outcome {
			t.Errorf("%s: the outcome is %s, expected %s: %s", c.name, entry.Outcome, c.outcome, text)
		}
		for _, want := range c.texts {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %q is missing in %q", c.name, want, text)
			}
		}
	}

	began = time.Now()
	e.StartWith(now, harness.StartOptions{NoRBAC: true})
	want := plannedWrites(p)
	e.Eventually(func() error {
		if got := auditedWrites(e, began); !slices.Equal(got, want) {
			return fmt.Errorf("isthmus sync wrote\n  %s\nand the plan says\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
		}
		return nil
	})
	e.Always(time.Second, func() error {
		if got := auditedWrites(e, began); !slices.Equal(got, want) {
			return fmt.Errorf("isthmus sync went on to write:\n  %s", strings.Join(got, "\n  "))
		}
		return nil
	})
	t.Logf("%d writes are planned, and the same are made", len(want))

	after := planned(e, now, 0)
	if after.Changes || after.Summary[plan.Change] > 0 || after.Summary[plan.Conflict] != 2 || after.Summary[plan.Hold] != 6 {
		t.Errorf("after the run the plan is %+v", after)
	}
}

// What a missing right hides is an error of plan and explain that names side, verb, resource, namespace and remedy, and
// never taken for nothing; a kind that a side does not serve yet just waits.
func TestS2_WhatCannotBeLookedAtIsAnError(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	ns := e.Namespace("a")
	pairs := fmt.Sprintf("{%[1]s: %[1]s}", ns)
	e.Local.Create(widget(ns, "one", "{size: 1}"))

	unserved := file(pairs, "apiVersion: nowhere.example.io/v1\nkind: Nothing\ndirection: toHost\n")
	out, code := e.Plan(unserved)
	if code != 0 || strings.Contains(out, "nothing crosses") || strings.Contains(out, "could not") {
		t.Errorf("a kind that is not served: code %d\n%s", code, out)
	}
	says(t, out, "wait", "not served")
	says(t, out, "1 wait")

	config := file(pairs, widgetsOut)
	planned(e, config, 2)
	path := e.WriteConfig(config)
	e.Remote.Delete("rolebindings.rbac.authorization.k8s.io", ns, "isthmus-"+e.ID+"-remote")
	for _, c := range []struct {
		side *harness.Side
		role string
		want []string // of explain
	}{
		{e.Remote, "remote", []string{"Rule:", "can't be told"}},
		{e.Local, "local", []string{"was not found, and not all could be looked at"}},
	} {
		e.Remote.Apply(e.RBAC(path, "remote"))
		e.Local.Apply(e.RBAC(path, "local"))
		c.side.Delete("rolebindings.rbac.authorization.k8s.io", ns, "isthmus-"+e.ID+"-"+c.role)
		words := []string{c.role + " cluster: listing", `cannot list resource "widgets"`, `namespace "` + ns + `"`, "apply the output of isthmus rbac --side " + c.role}
		e.Eventually(func() error { // the authorizer learns of it after a while
			if out, code = e.Ask("plan", path); code != 1 {
				return fmt.Errorf("code %d\n%s", code, out)
			}
			return nil
		})
		says(t, out, words...)
		says(t, out, "could not be looked at")
		for _, not := range []string{"nothing crosses", "0 of 0"} {
			if strings.Contains(out, not) {
				t.Errorf("%q is said of what could not be looked at:\n%s", not, out)
			}
		}
		if out, code = e.Ask("explain", path, "widget/one", "-n", ns); code != 1 || strings.Contains(out, "none takes it") {
			t.Errorf("explain: code %d\n%s", code, out)
		}
		says(t, out, words...)
		says(t, out, c.want...)
	}
}

// A plan and an explanation of Secrets name what changes, and show no value.
func TestF4_APlanHidesValues(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	ns := e.Namespace("a")
	config := file(fmt.Sprintf("{%[1]s: %[1]s}", ns), secretsOut)
	const old, now = "hunter2-hunter2", "swordfish-swordfish"
	secret := func(value string) string {
		return fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: one, namespace: %s}\nstringData: {password: %s}\n", ns, value)
	}
	e.Local.Create(secret(old))
	p := e.Start(config)
	e.Eventually(func() error {
		if e.Remote.Get("secrets", ns, "one") == nil {
			return fmt.Errorf("no twin")
		}
		return nil
	})
	p.Stop()
	e.Local.Patch("secrets", ns, "one", "stringData: {password: "+now+"}")

	entry := entryFor(e, planned(e, config, 2), ns, "one")
	if len(entry.Writes) != 1 || len(entry.Writes[0].Changes) != 1 || entry.Writes[0].Changes[0].Path != "data.password" || !entry.Writes[0].Changes[0].Hidden {
		t.Errorf("the plan is %+v", entry)
	}
	path := e.WriteConfig(config)
	for _, format := range []string{"json", "yaml", "text"} {
		out, _ := e.Ask("explain", path, "secret/one", "-o", format)
		table := strings.Replace(format, "text", "table", 1)
		more, _ := e.Ask("plan", path, "-o", table)
		for _, value := range []string{old, now, base64.StdEncoding.EncodeToString([]byte(old)), base64.StdEncoding.EncodeToString([]byte(now))} {
			if strings.Contains(out+more, value) {
				t.Errorf("-o %s shows the value of a Secret:\n%s\n%s", format, out, more)
			}
		}
		if !strings.Contains(out+more, "data.password") {
			t.Errorf("-o %s does not tell what changes:\n%s\n%s", format, out, more)
		}
	}
}
