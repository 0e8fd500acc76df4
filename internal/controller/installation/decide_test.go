package installation

import (
	"encoding/json"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/boundary"
)

const us = stamp("hub/apps/it/uid-1")

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		t.Fatal(err)
	}
	return o
}

// applied returns what a server has after body was applied by a manager.
func applied(t *testing.T, body map[string]any, manager string) *unstructured.Unstructured {
	t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	o := parse(t, string(text))
	o.SetUID("live")
	o.SetResourceVersion("7")
	fields := map[string]any{}
	for field, v := range body {
		if field != "apiVersion" && field != "kind" && field != "metadata" {
			fields["f:"+field] = owned(v)
		}
	}
	metadata := map[string]any{}
	for _, field := range []string{"labels", "annotations"} {
		if keys, ok := body["metadata"].(map[string]any)[field]; ok {
			metadata["f:"+field] = owned(keys)
		}
	}
	fields["f:metadata"] = metadata
	meta := o.Object["metadata"].(map[string]any)
	meta["managedFields"] = []any{map[string]any{"manager": manager, "operation": "Apply", "apiVersion": o.GetAPIVersion(), "fieldsType": "FieldsV1", "fieldsV1": fields}}
	return o
}

func owned(v any) map[string]any {
	out := map[string]any{}
	if m, ok := v.(map[string]any); ok {
		for k, inner := range m {
			out["f:"+k] = owned(inner)
		}
	}
	return out
}

const settings = `{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: apps}, data: {color: red}}`

func TestI4_WhatBecomesOfAnObject(t *testing.T) {
	want := parse(t, settings)
	body := stampBody(want, us, "hub", nil)
	inStep := applied(t, body, boundary.FieldManager)
	change := func(by func(o *unstructured.Unstructured)) *unstructured.Unstructured {
		o := inStep.DeepCopy()
		by(o)
		return o
	}
	restamped := func(s stamp) func(*unstructured.Unstructured) {
		return func(o *unstructured.Unstructured) {
			o.SetAnnotations(map[string]string{v1alpha1.InstallationAnnotation: string(s)})
		}
	}
	old := change(func(o *unstructured.Unstructured) {
		a := o.GetAnnotations()
		a[v1alpha1.InstalledContentAnnotation] = "v1-old"
		o.SetAnnotations(a)
	})
	for name, c := range map[string]struct {
		live   *unstructured.Unstructured
		change func(*question)
		action action
	}{
		"absent":                           {nil, nil, create},
		"in step":                          {inStep, nil, nothing},
		"the manifests changed":            {old, nil, update},
		"nobody's":                         {change(func(o *unstructured.Unstructured) { o.SetAnnotations(nil) }), nil, refuse},
		"another Installation's":           {change(restamped("hub/apps/other/uid-2")), nil, refuse},
		"of a former one of the same name": {change(restamped("hub/apps/it/uid-0")), nil, refuse},
		"of another hub":                   {change(restamped("bub/apps/it/uid-1")), nil, refuse},
		"nobody's, to be adopted":          {change(func(o *unstructured.Unstructured) { o.SetAnnotations(nil) }), func(q *question) { q.adopt = true }, update},
		"being deleted":                    {change(func(o *unstructured.Unstructured) { now := nowTime(); o.SetDeletionTimestamp(&now) }), nil, wait},
		"a field is another's now":         {change(func(o *unstructured.Unstructured) { lose(o, "data") }), nil, update},
		"a label is gone":                  {change(func(o *unstructured.Unstructured) { lose(o, "metadata", "labels") }), nil, update},
		"it ran, and is gone":              {nil, func(q *question) { q.once, q.ran = true, true }, nothing},
		"it did not run":                   {nil, func(q *question) { q.once = true }, create},
		"it runs, and others changed it":   {change(func(o *unstructured.Unstructured) { lose(o, "data") }), func(q *question) { q.once = true }, nothing},
		"it runs with former content":      {old, func(q *question) { q.once = true }, wait},
		"it ran with former content":       {complete(old), func(q *question) { q.once = true }, replace},
		"it failed with former content":    {failed(old), func(q *question) { q.once = true }, replace},
		"of another, which is being deleted": {change(func(o *unstructured.Unstructured) {
			restamped("x/y/z/u")(o)
			now := nowTime()
			o.SetDeletionTimestamp(&now)
		}), nil, wait},
	} {
		t.Run(name, func(t *testing.T) {
			q := question{want: want, body: body, live: c.live, stamp: us}
			if c.change != nil {
				c.change(&q)
			}
			d := decide(q)
			if d.action != c.action {
				t.Fatalf("%s (%s), expected %s", d.action, d.why, c.action)
			}
			metadata, _ := d.body["metadata"].(map[string]any)
			switch d.action {
			case create:
				if metadata["resourceVersion"] != "1" {
					t.Errorf("a creation that is not create-only: %v", metadata)
				}
			case update:
				if metadata["uid"] != "live" || metadata["resourceVersion"] != "7" {
					t.Errorf("an update that is not bound: %v", metadata)
				}
			default:
				if d.body != nil {
					t.Errorf("%s has a body", d.action)
				}
			}
		})
	}
}

// I3: what others put on a namespace that was there stays, and it is never ours.
func TestI3_ANamespaceThatWasThere(t *testing.T) {
	plain := parse(t, `{apiVersion: v1, kind: Namespace, metadata: {name: apps}}`)
	labelled := parse(t, `{apiVersion: v1, kind: Namespace, metadata: {name: apps, labels: {team: red}}}`)
	foreign := parse(t, `{apiVersion: v1, kind: Namespace, metadata: {name: apps, uid: live, resourceVersion: "7", labels: {owner: somebody}}}`)
	const manager = "isthmus-thing"
	merged := applied(t, mergeBody(labelled), manager)
	for name, c := range map[string]struct {
		want, live *unstructured.Unstructured
		action     action
	}{
		"nothing to put there":         {plain, foreign, nothing},
		"a label to put there":         {labelled, foreign, merge},
		"the label is there":           {labelled, merged, nothing},
		"the label is not wanted":      {plain, merged, merge},
		"it is not there, and created": {labelled, nil, create},
	} {
		t.Run(name, func(t *testing.T) {
			d := decide(question{want: c.want, body: stampBody(c.want, us, "hub", nil), live: c.live, stamp: us, shared: true, manager: manager})
			if d.action != c.action {
				t.Fatalf("%s (%s), expected %s", d.action, d.why, c.action)
			}
			if _, stamped := (&unstructured.Unstructured{Object: d.body}).GetAnnotations()[v1alpha1.InstallationAnnotation]; d.action == merge && stamped {
				t.Error("what is another's is stamped")
			}
		})
	}
}

func TestI4_TheAnchorOwnsWhatIsInItsNamespace(t *testing.T) {
	anchor := parse(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: isthmus-thing, namespace: apps, uid: anchor}}`)
	body := stampBody(parse(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: apps}, data: {a: null, b: c}}`), us, "hub", anchor)
	o := &unstructured.Unstructured{Object: body}
	if owners := o.GetOwnerReferences(); len(owners) != 1 || owners[0].UID != "anchor" || owners[0].Controller != nil {
		t.Errorf("owners: %v", owners)
	}
	if _, there := o.Object["data"].(map[string]any)["a"]; there {
		t.Error("a null is applied, which the server does not keep")
	}
	again := stampBody(parse(t, settings), us, "hub", anchor)
	if hashOf(body) == hashOf(again) || hashOf(body) == "" {
		t.Errorf("bodies that differ have the hashes %q and %q", hashOf(body), hashOf(again))
	}
}
