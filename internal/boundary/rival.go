package boundary

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// fieldRival tells who undoes the content of the twin (O6).
func (d *decider) fieldRival(stamp Stamp) Rival {
	if stamp.Applied != d.want.hash {
		return Rival{Does: "writes other content to the twin", Managers: []string{FieldManager},
			Setting: "another --instance for one Isthmus"}
	}
	paths := d.lacked()
	managers := owners(d.in.Twin, func(at fieldpath.Path) bool {
		return len(paths) == 0 || slices.ContainsFunc(paths, func(p Path) bool { return leadsTo(p, at) || within(p, at) })
	})
	return Rival{Does: "changes the twin back", Managers: managers, Paths: texts(paths), Setting: d.leaving(paths)}
}

// lacked returns the places of the twin that others changed or removed, the first few of them.
func (d *decider) lacked() []Path {
	ours, ok := ownedBy(d.in.Twin, FieldManager)
	if !ok {
		return nil
	}
	var paths []Path
	var rest any = d.want.body
	for len(paths) <= fewNames {
		path, missing := lacks(rest.(map[string]any), ours, d.in.Twin)
		path = listOf(path)
		emptied := slices.ContainsFunc(paths, func(p Path) bool { return len(path) <= len(p) && p[:len(path)].String() == path.String() })
		if !missing || emptied { // what is left of a place that was told already is no place of its own
			break
		}
		paths = append(paths, path)
		rest = without(rest, path)
	}
	return paths
}

// listOf turns the path of a list's items into that of the list.
func listOf(p Path) Path {
	for len(p) > 0 && p[len(p)-1].EachItem {
		p = p[:len(p)-1]
	}
	return p
}

// leaving is the setting that leaves fields of the twin to others; empty: there is none.
func (d *decider) leaving(paths []Path) string {
	if len(paths) == 0 {
		return ""
	}
	for _, p := range paths {
		if len(p) == 1 && p[0].Field == "spec" {
			return ""
		}
		if len(p) == 3 && p[0].Field == "metadata" && p[1].Field == "labels" {
			if _, ours := d.out.Rule.ExtraLabels[p[2].Field]; ours {
				return "no extraLabels for " + p[2].Field
			}
		}
	}
	return "hostOwnedFields: [" + strings.Join(texts(paths), ", ") + "]"
}

// existenceRival tells of who deletes the twin.
func (d *decider) existenceRival() Rival {
	r := Rival{Does: "deletes the twin (who, only the audit log of its cluster can tell)"}
	if d.out.Rule.Mode != ModeMirror {
		r.Setting = "onTwinDeleted: " + string(TwinDeletedHold)
	}
	return r
}

// statusRival tells who writes the status that is returned to a source, or given to a mirror.
func (d *decider) statusRival(of *unstructured.Unstructured, want any) Rival {
	r := Rival{Managers: d.statusWriters(of), Paths: texts(differing(want, of.Object["status"], Path{{Field: "status"}}))}
	if of == d.in.Twin {
		r.Does = "writes the status of the mirror"
	} else {
		r.Does, r.Setting = "writes the status of the source", "statusSync: false"
	}
	return r
}

// differing returns the places at which two values differ, fields only, the first few of them.
func differing(a, b any, at Path) []Path {
	objectA, okA := a.(map[string]any)
	objectB, okB := b.(map[string]any)
	if !okA || !okB {
		return []Path{at}
	}
	fields := sortedKeys(objectA)
	for _, field := range sortedKeys(objectB) {
		if _, both := objectA[field]; !both {
			fields = append(fields, field)
		}
	}
	var paths []Path
	for _, field := range fields {
		if !sameValue(objectA[field], objectB[field]) && len(paths) <= fewNames {
			paths = append(paths, differing(objectA[field], objectB[field], at.Field(field))...)
		}
	}
	return paths
}

// StatusManager is the field manager that writes status. It tells an Isthmus from others, and a status that it returned
// from one that somebody else wrote.
func (id Identity) StatusManager() string { return FieldManager + "/" + id.Home + "/" + id.Instance }

// statusWriters returns the other managers that wrote an object's status, the latest first.
func (d *decider) statusWriters(of *unstructured.Unstructured) []string {
	var entries []managedEntry
	for _, entry := range managedFields(of) {
		if entry["subresource"] == "status" && entry["manager"] != d.in.Identity.StatusManager() {
			entries = append(entries, entry)
		}
	}
	slices.SortStableFunc(entries, func(a, b managedEntry) int { return cmp.Compare(b.text("time"), a.text("time")) })
	var managers []string
	for _, entry := range entries {
		if name := entry.text("manager"); !contains(managers, name) {
			managers = append(managers, name)
		}
	}
	return few(managers)
}

// returned reports whether a source's status, or a part of it, was written by us.
func (d *decider) returned() bool {
	return slices.ContainsFunc(managedFields(d.in.Source), func(entry managedEntry) bool {
		return entry["subresource"] == "status" && entry["manager"] == d.in.Identity.StatusManager()
	})
}

// owners returns the other managers that own a place which matches, beside the status.
func owners(twin *unstructured.Unstructured, match func(fieldpath.Path) bool) []string {
	var managers []string
	for _, entry := range othersEntries(twin) {
		set, ok := entry.set()
		if !ok || contains(managers, entry.text("manager")) {
			continue
		}
		found := false
		set.Leaves().Iterate(func(at fieldpath.Path) { found = found || match(at) })
		if found {
			managers = append(managers, entry.text("manager"))
		}
	}
	return few(managers)
}

// within reports whether a path leads to the place in a set or below it.
func within(p Path, at fieldpath.Path) bool { return len(at) <= len(p) && leadsTo(p[:len(at)], at) }

// texts writes paths, the first few of them.
func texts(paths []Path) []string {
	var out []string
	for _, p := range paths {
		out = append(out, p.String())
	}
	return few(out)
}
