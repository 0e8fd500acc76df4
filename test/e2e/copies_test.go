//go:build unix

package e2e

import (
	"fmt"
	"testing"
	"time"

	"isthmus.dev/isthmus/test/harness"
)

// stampLabels and stampAnnotations are the keys of the stamp, each with a value that is well-formed but not true.
var (
	stampLabels      = map[string]string{"isthmus.dev/origin": "elsewhere"}
	stampAnnotations = map[string]string{
		"isthmus.dev/writer": "elsewhere/default/0", "isthmus.dev/rule": "other", "isthmus.dev/source": "other/name",
		"isthmus.dev/source-uid": "00000000-0000-0000-0000-000000000000", "isthmus.dev/source-generation": "7",
		"isthmus.dev/twin": "other/name", "isthmus.dev/applied": "v1-0000",
	}
)

func TestS4_AnyStampBarsASource(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	ns := e.Namespace("a")
	e.Start(file(same(ns), widgetsOut))
	stamps := map[string][]string{"labels": {"vcluster.loft.sh/managed-by: x", "kupe.cloud/managed-by: vcluster-sync",
		"offloading.liqo.io/origin: x", "offloading.liqo.io/destination: x"}, "annotations": {
		"vcluster.loft.sh/object-name: x", "vcluster.loft.sh/object-namespace: x", "vcluster.loft.sh/object-uid: x",
		"vcluster.loft.sh/object-host-name: x", "kupe.cloud/synced-from: x/y"}}
	for key := range stampLabels {
		stamps["labels"] = append(stamps["labels"], key+": x", key+": ''")
	}
	for key := range stampAnnotations {
		stamps["annotations"] = append(stamps["annotations"], key+": x", key+": ''")
	}
	n := 0
	var later []string
	for field, all := range stamps {
		for _, stamp := range all {
			n++
			e.Local.Create(widgetWith(ns, fmt.Sprintf("stamped-%d", n), field+": {"+stamp+"}"))
			// The same stamp, put on an object that has crossed already.
			name := fmt.Sprintf("later-%d", n)
			e.Local.Create(widgetWith(ns, name, ""))
			later = append(later, "metadata: {"+field+": {"+stamp+"}}")
		}
	}
	e.Eventually(func() error {
		for i := range later {
			if name := fmt.Sprintf("later-%d", i+1); e.Remote.Get(widgets, ns, name) == nil {
				return fmt.Errorf("%s has not crossed", name)
			}
		}
		return nil
	})
	for i, patch := range later {
		e.Local.Patch(widgets, ns, fmt.Sprintf("later-%d", i+1), patch)
	}
	e.Local.Create(widgetWith(ns, "plain", ""))
	e.Eventually(func() error { return present(e.Remote, widgets, ns, "plain") })
	e.Quiet(500 * time.Millisecond)
	if err := present(e.Remote, widgets, ns, "plain"); err != nil {
		t.Error(err)
	}
}

func TestS4_TwoClustersThatOffloadToEachOther(t *testing.T) {
	t.Parallel()
	there := harness.New(t)
	there.Both(harness.WidgetCRD("example.io"))
	ns := there.Namespace("a")
	back := there.Reverse()
	rule := file(same(ns), widgetsOut+"statusSync: true")
	here, far := there.Local, there.Remote
	// One of the same name on both sides: each is in the other's way.
	here.Create(widget(ns, "twice", "{size: 1}"))
	far.Create(widget(ns, "twice", "{size: 2}"))
	there.Start(rule)
	back.Start(rule)

	here.Create(widget(ns, "from-here", "{size: 1}"))
	far.Create(widget(ns, "from-far", "{size: 2}"))
	there.Eventually(func() error { return is(far.Get(widgets, ns, "from-here"), 1, "spec", "size") })
	there.Eventually(func() error { return is(here.Get(widgets, ns, "from-far"), 2, "spec", "size") })
	far.SetStatus(widgets, ns, "from-here", "{by: far}")
	here.SetStatus(widgets, ns, "from-far", "{by: here}")
	there.Eventually(func() error { return is(here.Get(widgets, ns, "from-here"), "far", "status", "by") })
	there.Eventually(func() error { return is(far.Get(widgets, ns, "from-far"), "here", "status", "by") })

	there.Quiet(time.Second)
	back.Quiet(time.Second)
	for side, size := range map[*harness.Side]int{here: 1, far: 2} {
		if err := present(side, widgets, ns, "from-far", "from-here", "twice"); err != nil {
			t.Error(err)
		}
		if err := is(side.Get(widgets, ns, "twice"), size, "spec", "size"); err != nil {
			t.Error(err)
		}
	}
	here.Delete(widgets, ns, "from-here")
	far.Delete(widgets, ns, "from-far")
	there.Eventually(func() error { return present(far, widgets, ns, "twice") })
	there.Eventually(func() error { return present(here, widgets, ns, "twice") })
}

func TestS4_ACopyOfATwinIsNeitherTwinNorSource(t *testing.T) {
	t.Parallel()
	e := harness.New(t)
	e.Both(harness.WidgetCRD("example.io"))
	ns, other := e.Namespace("a"), e.Namespace("b")
	e.Start(file(same(ns, other), widgetsOut))
	e.Local.Create(widget(ns, "one", "{size: 1}"))
	e.Eventually(func() error { return is(e.Remote.Get(widgets, ns, "one"), 1, "spec", "size") })

	twin := e.Remote.Get(widgets, ns, "one")
	copyTo := func(side *harness.Side, namespace, name string) {
		c := twin.DeepCopy()
		c.Object["metadata"] = map[string]any{
			"name": name, "namespace": namespace, "labels": field(twin, "metadata", "labels"), "annotations": field(twin, "metadata", "annotations"),
		}
		encoded, err := c.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		side.Create(string(encoded))
	}
	copyTo(e.Remote, ns, "copy")
	copyTo(e.Remote, other, "one")
	copyTo(e.Local, other, "restored") // a source that says it is a twin
	before := map[string]string{}
	for _, ns := range []string{ns, other} {
		for _, obj := range e.Remote.List(widgets, ns, "") {
			before[ns+"/"+obj.GetName()] = obj.GetResourceVersion()
		}
	}
	e.Local.Create(widget(ns, "copy", "{size: 5}"))
	e.Eventually(func() error {
		return e.Local.HasEvent(ns, "copy", "Warning", "CreateFailed", "was not created by this Isthmus")
	})
	e.Local.Patch(widgets, ns, "one", "spec: {size: 2}")
	e.Eventually(func() error { return is(e.Remote.Get(widgets, ns, "one"), 2, "spec", "size") })
	e.Local.Delete(widgets, ns, "one")
	e.Eventually(func() error { return absent(e.Remote.Get(widgets, ns, "one")) })
	e.Quiet(time.Second)
	if err := present(e.Remote, widgets, other, "one"); err != nil {
		t.Error(err)
	}
	for _, c := range [][2]string{{ns, "copy"}, {other, "one"}} {
		if have := e.Remote.Get(widgets, c[0], c[1]); have == nil || have.GetResourceVersion() != before[c[0]+"/"+c[1]] {
			t.Errorf("the copy %s was touched: %v", c, have)
		}
	}
}
