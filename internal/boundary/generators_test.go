package boundary

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// junk draws any JSON value.
func junk(t *rapid.T, depth int) any {
	switch kind := rapid.IntRange(0, 7).Draw(t, "type"); {
	case kind == 0:
		return nil
	case kind == 1:
		return rapid.Bool().Draw(t, "bool")
	case kind == 2:
		return rapid.Int64Range(-3, 9).Draw(t, "int")
	case kind == 3:
		return 0.5
	case kind == 4 || depth == 0:
		return rapid.SampledFrom([]string{"", "x", "west", "None", "true", "3", "2030-01-01T00:00:00Z"}).Draw(t, "string")
	case kind == 5:
		list := make([]any, rapid.IntRange(0, 3).Draw(t, "len"))
		for i := range list {
			list[i] = junk(t, depth-1)
		}
		return list
	}
	return junkMap(t, depth)
}

var junkKeys = []string{"a", "b", "x.y/z", "spec", "status", "name", "type", "conditions", "observedGeneration", "apiVersion", "kind", "metadata", "labels"}

func junkMap(t *rapid.T, depth int) map[string]any {
	m := map[string]any{}
	for _, k := range rapid.SliceOfN(rapid.SampledFrom(junkKeys), 0, 4).Draw(t, "keys") {
		m[k] = junk(t, depth-1)
	}
	return m
}

// damage replaces some part of an object by anything.
func damage(t *rapid.T, v any, depth int) any {
	if rapid.IntRange(0, 9).Draw(t, "here") == 0 || depth == 0 {
		return junk(t, 2)
	}
	switch v := v.(type) {
	case map[string]any:
		if keys := sortedKeys(v); len(keys) > 0 {
			k := rapid.SampledFrom(keys).Draw(t, "key")
			if rapid.IntRange(0, 5).Draw(t, "drop") == 0 {
				delete(v, k)
			} else {
				v[k] = damage(t, v[k], depth-1)
			}
		}
		return v
	case []any:
		if len(v) > 0 {
			i := rapid.IntRange(0, len(v)-1).Draw(t, "index")
			v[i] = damage(t, v[i], depth-1)
		}
		return v
	}
	return junk(t, 2)
}

// drawMetadata draws labels or annotations, of keys that cross and keys that do not.
func drawMetadata(t *rapid.T, name string) map[string]any {
	keys := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{
		"a", "b.c/d", "app.kubernetes.io/name", "argocd.argoproj.io/tracking-id", "meta.helm.sh/release-name", "kupe.cloud/tenant", "isthmus.dev/other",
		"vcluster.loft.sh/force-sync", "liqo.io/skip-reflection", "offloading.liqo.io/x", "kubectl.kubernetes.io/last-applied-configuration", "deployment.kubernetes.io/revision",
	}), 0, 6, rapid.ID).Draw(t, name)
	m := map[string]any{}
	for _, k := range keys {
		m[k] = rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, k)
	}
	return m
}

// drawSource draws an object as a server could hand it out.
func drawSource(t *rapid.T, content map[string]any) *unstructured.Unstructured {
	obj := object(t, blueWidget)
	delete(obj.Object, "spec")
	for k, v := range content {
		obj.Object[k] = v
	}
	metadata := obj.Object["metadata"].(map[string]any)
	metadata["labels"], metadata["annotations"] = drawMetadata(t, "labels"), drawMetadata(t, "annotations")
	for key, v := range map[string]any{
		"finalizers": []any{"x/y"}, "ownerReferences": []any{map[string]any{"name": "o"}}, "generateName": "bl",
		"managedFields": []any{map[string]any{"manager": "kubectl"}}, "creationTimestamp": "2030-01-01T00:00:00Z",
	} {
		if rapid.Bool().Draw(t, key) {
			metadata[key] = v
		}
	}
	metadata["generation"] = rapid.Int64Range(1, 5).Draw(t, "generation")
	if rapid.Bool().Draw(t, "status") {
		obj.Object["status"] = junk(t, 3)
	}
	return obj
}

// drawWidget draws content that the widgets' schema allows.
func drawWidget(t *rapid.T) map[string]any {
	spec := map[string]any{}
	word := rapid.SampledFrom([]string{"", "x", "y.z"})
	words := rapid.SliceOfNDistinct(word, 0, 3, rapid.ID)
	list := func(name string) []any {
		out := []any{}
		for _, w := range words.Draw(t, name) {
			out = append(out, w)
		}
		return out
	}
	stringMap := func(name string) map[string]any {
		out := map[string]any{}
		for _, w := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"k", "a.b/c", "d"}), 0, 3, rapid.ID).Draw(t, name) {
			out[w] = word.Draw(t, w)
		}
		return out
	}
	fields := map[string]func() any{
		"replicas": func() any { return rapid.Int64Range(0, 3).Draw(t, "replicas") },
		"image":    func() any { return word.Draw(t, "image") },
		"flag":     func() any { return nil },
		"selector": func() any { return stringMap("selector") },
		"params":   func() any { return stringMap("params") },
		"tags":     func() any { return list("tags") },
		"args":     func() any { return list("args") },
		"nested": func() any {
			return map[string]any{"inner": map[string]any{"deep": map[string]any{}, "list": list("deep")}}
		},
		"tiers": func() any {
			tiers := map[string]any{}
			for _, k := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"gold", "tin"}), 0, 2, rapid.ID).Draw(t, "tiers") {
				tiers[k] = map[string]any{"size": rapid.Int64Range(0, 3).Draw(t, k), "names": list(k + " names")}
			}
			return tiers
		},
		"ports": func() any {
			ports := []any{}
			for _, n := range rapid.SliceOfNDistinct(rapid.IntRange(0, 5), 0, 4, rapid.ID).Draw(t, "ports") {
				port := map[string]any{"port": int64(80 + n/2), "protocol": []string{"TCP", "UDP"}[n%2]}
				if n%2 == 0 && rapid.Bool().Draw(t, "defaulted") {
					delete(port, "protocol")
				}
				if rapid.Bool().Draw(t, "named") {
					port["name"], port["weights"] = word.Draw(t, "port name"), map[string]any{}
				}
				ports = append(ports, port)
			}
			return ports
		},
		"pairs": func() any {
			pairs := []any{}
			for _, n := range rapid.SliceOfNDistinct(rapid.IntRange(0, 3), 0, 4, rapid.ID).Draw(t, "pairs") {
				pair := map[string]any{"a": int64(1 + n/2), "b": int64(9 + n%2)}
				switch drop := rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "defaulted key"); {
				case drop == "a" && n/2 == 0, drop == "b" && n%2 == 0:
					delete(pair, drop)
				}
				pairs = append(pairs, pair)
			}
			return pairs
		},
	}
	for _, name := range sortedKeys(fields) {
		if rapid.Bool().Draw(t, "has "+name) {
			spec[name] = fields[name]()
		}
	}
	content := map[string]any{"spec": spec}
	if rapid.Bool().Draw(t, "has data") {
		content["data"] = stringMap("data")
	}
	if rapid.Bool().Draw(t, "has any") {
		content["any"] = junkMap(t, 2)
	}
	return content
}

// drawInput draws a flow's question: rules, a source and a twin that may be anything from in step to damaged.
func drawInput(t *rapid.T) Input {
	in := newScene(t).Input
	in.Source = drawSource(t, drawWidget(t))
	if rapid.Bool().Draw(t, "has a twin") {
		server := newServer(t, widgetTypes(t), widgetGVK)
		server.apply(wanted(&in).body, FieldManager)
		if rapid.Bool().Draw(t, "foreign change") {
			server.update("somebody", func(o *unstructured.Unstructured) { o.Object["spec"] = drawWidget(t)["spec"] })
		}
		in.Twin = server.twin()
		in.Twin.Object["status"] = junk(t, 3)
	}
	some := func(name string, change func()) {
		if rapid.IntRange(0, 3).Draw(t, name) == 0 {
			change()
		}
	}
	if in.Twin != nil {
		some("stamp damaged", func() {
			key := rapid.SampledFrom(stampKeys).Draw(t, "stamp key")
			for _, field := range []string{"labels", "annotations"} {
				if m := rawMetadata(in.Twin, field); m[key] != nil {
					m[key] = rapid.SampledFrom([]any{"", "x", "shop/red", nil, int64(1)}).Draw(t, "stamp value")
				}
			}
		})
		some("twin terminating", func() { dyingTwin(&in) })
	}
	some("no source", func() { in.Source = nil })
	if in.Source != nil {
		some("source terminating", func() { dyingSource(&in) })
		some("source again", func() { newUID(&in) })
		some("source stamped", func() { set(in.Source, "x", "metadata", "annotations", rapid.SampledFrom(stampKeys).Draw(t, "mark")) })
	}
	if in.Source != nil {
		some("source damaged", func() { in.Source = damaged(t, in.Source) })
	}
	if in.Twin != nil {
		some("twin damaged", func() { in.Twin = damaged(t, in.Twin) })
	}
	if in.Source != nil && asObject(in.Source.Object["metadata"]) != nil {
		some("finalizers", func() {
			names := []string{"a/b", "c/d", in.Identity.Finalizer(in.Remote)}
			in.Source.SetFinalizers(rapid.SliceOfDistinct(rapid.SampledFrom(names), rapid.ID).Draw(t, "names"))
		})
		some("released", func() { in.Source.SetAnnotations(map[string]string{AnnotationRelease: "true"}) })
	}
	some("foreground", func() { in.Rules[0].DeletionPolicy = DeletionForeground })
	some("carry", func() { in.Rules[0].CarryFinalizers = []string{"c/d"} })
	some("blind", func() { in.Blind, in.Trouble, in.KindGoing = true, "unreachable", rapid.Bool().Draw(t, "kind going") })
	some("more twins", func() { in.MoreTwins = true })
	some("inferred", func() { in.Evidence = Inferred })
	some("withdrawn", func() { in.Withdrawn = true })
	some("unready", func() { in.Unready = true })
	some("unconfirmed", func() { in.Confirmed = false })
	some("paused", func() { in.Guard = Guard{true, 6, 9} })
	some("pairs", func() {
		in.Naming = SameName{Pairs: NamespacePairs{rapid.SampledFrom([]string{"shop", "other"}).Draw(t, "local"): rapid.SampledFrom([]string{"shop", "far"}).Draw(t, "remote")}}
	})
	some("place", func() { in.Place = types.NamespacedName{Namespace: "far", Name: "blue"} })
	some("namespace", func() {
		flag := func(name string) bool { return rapid.IntRange(0, 2).Draw(t, name) == 0 }
		in.Namespace = PlaceState{Unknown: flag("unknown"), Missing: flag("missing"), Terminating: flag("terminating"), Creatable: flag("creatable"), Writer: west.Writer()}
		in.Namespace.Origin = rapid.SampledFrom([]string{"", "west", "east"}).Draw(t, "origin")
	})
	some("removed", func() {
		in.Removed = []RemovedRule{{Name: "widgets", OnRemoval: rapid.SampledFrom([]RemovalPolicy{RemovalDelete, RemovalOrphan}).Draw(t, "onRemoval"),
			CarryFinalizers: []string{"c/d"}}}
		in.Rules = nil
	})
	some("rules", func() {
		in.Rules = append(in.Rules, widgetRule(func(r *Rule) {
			r.Name = "second"
			r.Policy = rapid.SampledFrom([]Policy{PolicyAll, PolicyAllowList, PolicyDenyList}).Draw(t, "policy")
			r.ReturnStatus = rapid.Bool().Draw(t, "returnStatus")
			r.OnTwinDeleted = rapid.SampledFrom([]TwinDeletedPolicy{"", TwinDeletedHold}).Draw(t, "onTwinDeleted")
			r.RemoteOwned = []Path{MustPath(rapid.SampledFrom([]string{"spec", "spec.ports[*].name", "spec.params", "metadata.labels", "metadata", "any.a"}).Draw(t, "remoteOwned"))}
		}))
	})
	if len(in.Rules) > 0 {
		some("selector", func() { in.Rules[0].Selector = labels.SelectorFromSet(labels.Set{"a": "x"}) })
	}
	some("elsewhere", func() {
		in.Remote, in.Elsewhere = "b", [][]string{nil, {"a"}, {"a", "c"}}[rapid.IntRange(0, 2).Draw(t, "elsewhere")]
		in.ElsewhereUnknown = rapid.Bool().Draw(t, "elsewhereUnknown")
		for _, r := range in.Rules {
			r.StatusFrom = rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "statusFrom")
		}
	})
	some("crossed", func() { in.Memory.Crossed = true })
	some("fights", func() {
		in.Memory.TwinFight = &Fight{Writes: rapid.IntRange(1, fightWrites).Draw(t, "writes"), Last: noon}
		in.Memory.SourceFight = &Fight{Writes: fightWrites, Last: noon, Since: noon}
	})
	some("undeclared", func() {
		in.Undeclared = []Path{MustPath("spec.image"), MustPath("any"), MustPath("spec.ports[*].weights")}
	})
	return in
}

func damaged(t *rapid.T, obj *unstructured.Unstructured) *unstructured.Unstructured {
	m, ok := damage(t, obj.DeepCopy().Object, 5).(map[string]any)
	if !ok {
		m = junkMap(t, 2)
	}
	return &unstructured.Unstructured{Object: m}
}

// checkInvariants says what must hold of any decision (P3, F7, F8, T1), empty when all does.
func checkInvariants(in Input, d Decision) string {
	provenance := Foreign
	if in.Twin != nil {
		provenance = in.Identity.Provenance(in.Twin, in.Key)
	}
	place, ok := placeOf(in)
	switch d.Action {
	case Create:
		metadata := asObject(d.Body["metadata"])
		if in.Twin != nil || in.Source == nil || !ok || place != in.Place || metadata["resourceVersion"] != "1" || metadata["uid"] != nil {
			return "a create that may not be"
		}
	case Apply:
		metadata := asObject(d.Body["metadata"])
		if provenance != OursForThis || in.Source == nil || place != in.Place || metadata["uid"] != string(in.Twin.GetUID()) ||
			metadata["resourceVersion"] != in.Twin.GetResourceVersion() || d.UID != in.Twin.GetUID() || d.ResourceVersion != in.Twin.GetResourceVersion() {
			return "an apply that may not be"
		}
		if over := asObject(d.Handover["metadata"]); d.Handover != nil && (over["uid"] != string(d.UID) || over["resourceVersion"] != d.ResourceVersion) {
			return "a handover that is not bound"
		}
	case RemoveFields:
		if provenance != OursForThis || in.Source == nil || place != in.Place || d.Patch[0]["value"] != string(in.Twin.GetUID()) ||
			d.Patch[1]["value"] != in.Twin.GetResourceVersion() || d.Rule.SpecOwnership != OwnershipExclusive {
			return "a removal of fields that may not be"
		}
		for _, op := range d.Patch[2:] {
			top := strings.Split(op["path"].(string), "/")[1]
			if op["op"] != "remove" || contains([]string{"metadata", "status", "apiVersion", "kind"}, top) {
				return "a removal of what is not the source's"
			}
		}
	case Delete, Release:
		if provenance != OursForThis || d.UID != in.Twin.GetUID() || d.ResourceVersion != in.Twin.GetResourceVersion() {
			return "a removal of what is not ours, or not bound"
		}
		if d.Action == Delete && (in.Source == nil || in.Source.GetDeletionTimestamp() != nil) && !in.Confirmed {
			return "a delete for an absence that is not confirmed"
		}
		if d.Guarded && in.Guard.Paused {
			return "a delete that the guard should hold"
		}
	case ReturnStatus, ClearStatus:
		if in.Source == nil || d.Rule == nil || !d.Rule.ReturnStatus || d.UID != in.Source.GetUID() || d.ResourceVersion != "" {
			return "a status write that may not be"
		}
		if d.Action == ReturnStatus && provenance != OursForThis {
			return "the status of what is not ours"
		}
	case Hold, Refuse:
		if d.Until == "" {
			return "waits for nothing"
		}
	case SetFinalizers:
		if fault := checkFinalizers(in, d); fault != "" {
			return fault
		}
	case Nothing:
	default:
		return fmt.Sprintf("unknown action %q", d.Action)
	}
	if d.Action != Create && d.Action != Apply && d.Body != nil || d.ClearFirst && d.Action != Delete || len(d.Reasons) == 0 {
		return "a decision that contradicts itself"
	}
	if body := d.Body; body != nil {
		if _, err := json.Marshal(body); err != nil {
			return err.Error()
		}
		if body["status"] != nil {
			return "status crosses"
		}
		for k := range asObject(body["metadata"]) {
			switch k {
			case "name", "namespace", "labels", "annotations", "uid", "resourceVersion":
			case "finalizers":
				for _, name := range asObject(body["metadata"])[k].([]any) {
					if !contains(d.Rule.CarryFinalizers, name.(string)) {
						return "a finalizer crosses that is not carried"
					}
				}
			default:
				return "metadata." + k + " crosses"
			}
		}
		twin := &unstructured.Unstructured{Object: body}
		if in.Source.GetUID() != "" && in.Identity.Provenance(twin, in.Key) != OursForThis {
			return "a body without the whole stamp"
		}
	}
	return ""
}

// checkFinalizers says what must hold of the finalizers that a source is to get (D3).
func checkFinalizers(in Input, d Decision) string {
	if in.Source == nil || d.UID != in.Source.GetUID() || d.ResourceVersion != in.Source.GetResourceVersion() {
		return "finalizers of no source, or not bound"
	}
	have, ours := in.Source.GetFinalizers(), in.Identity.Finalizer(in.Remote)
	gains, loses := notAmong(d.Finalizers, have), notAmong(have, d.Finalizers)
	released := in.KindGoing || in.Source.GetAnnotations()[AnnotationRelease] == "true"
	switch going := in.Source.GetDeletionTimestamp() != nil; {
	case len(gains)+len(loses) == 0:
		return "finalizers that are there already"
	case len(gains) > 0 && (going || in.Blind || len(loses) > 0 || !slices.Equal(gains, []string{ours})):
		return "finalizers that may not be added"
	case going && !released && (in.Blind || in.Twin != nil && in.Identity.Provenance(in.Twin, in.Key) == OursForThis):
		return "a source let go before its twin"
	case !going && len(gains) == 0 && !slices.Equal(loses, []string{ours}):
		return "a finalizer of others taken off a source that stands"
	}
	for _, name := range loses {
		carry := func(names []string) bool { return contains(names, name) }
		if name != ours && !slices.ContainsFunc(in.Rules, func(r *Rule) bool { return carry(r.CarryFinalizers) }) &&
			!slices.ContainsFunc(in.Removed, func(r RemovedRule) bool { return carry(r.CarryFinalizers) }) {
			return "a finalizer of others taken off"
		}
	}
	return ""
}

// notAmong returns the names that are not among others.
func notAmong(names, others []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return contains(others, name) })
}

// decideChecked decides, and checks what must hold of any decision.
func decideChecked(t tester, in Input) Decision {
	source, twin := in.Source.DeepCopy(), in.Twin.DeepCopy()
	d := Decide(in)
	if broken := checkInvariants(in, d); broken != "" {
		t.Fatalf("%s: %+v", broken, d)
	}
	if diff := cmp.Diff([]any{source, twin}, []any{in.Source, in.Twin}); diff != "" {
		t.Fatalf("the input was changed (-want +got):\n%s", diff)
	}
	return d
}
