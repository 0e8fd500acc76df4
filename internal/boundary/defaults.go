package boundary

import (
	"encoding/base64"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// kindDefault is a row of the table of O1 and D4: what is special about a kind. No other code knows kinds by name.
type kindDefault struct {
	group, kind string
	// versions that the row holds for; nil: all.
	versions []string
	// remoteOwned are places that the target's servers or controllers allocate.
	remoteOwned []ownedPath
	// runsToCompletion kinds are not created again when others delete the twin (OnTwinDeleted: Hold).
	runsToCompletion bool
	// secret kinds hold values that nothing may show (F4).
	secret bool
	// project is where objects of the kind name the project that they belong to.
	project *projectField
}

// projectField is where a kind names its project, for rules that enforce the tenant's (Rule.TenantProject).
type projectField struct {
	path Path
	// base64 encodes the value, as in a Secret's data.
	base64 bool
	// label, when not empty, limits it to objects that carry this label, with one of values.
	label  string
	values []string
}

// ownedPath is a remote-owned place, unless the source holds a certain value at another one.
type ownedPath struct {
	path        Path
	unless      Path
	unlessValue any
}

func owned(path string) ownedPath { return ownedPath{path: MustPath(path)} }

func ownedUnless(path, unless string, value any) ownedPath {
	return ownedPath{path: MustPath(path), unless: MustPath(unless), unlessValue: value}
}

// kindDefaults is the table. docs/ownership.md shows it.
var kindDefaults = []kindDefault{
	{group: "", kind: "Service", remoteOwned: []ownedPath{
		ownedUnless("spec.clusterIP", "spec.clusterIP", "None"),
		ownedUnless("spec.clusterIPs", "spec.clusterIP", "None"),
		owned("spec.ipFamilies"), owned("spec.healthCheckNodePort"), owned("spec.ports[*].nodePort"),
	}},
	{group: "", kind: "PersistentVolumeClaim", remoteOwned: []ownedPath{
		owned("spec.volumeName"),
		owned(`metadata.annotations["pv.kubernetes.io/bind-completed"]`),
		owned(`metadata.annotations["pv.kubernetes.io/bound-by-controller"]`),
		owned(`metadata.annotations["volume.kubernetes.io/selected-node"]`),
		owned(`metadata.annotations["volume.kubernetes.io/storage-provisioner"]`),
		owned(`metadata.annotations["volume.beta.kubernetes.io/storage-provisioner"]`),
	}},
	{group: "", kind: "Secret", secret: true, project: &projectField{
		path: MustPath("data.project"), base64: true, label: "argocd.argoproj.io/secret-type", values: []string{"repository", "repo-creds"},
	}},
	{group: "", kind: "ServiceAccount", remoteOwned: []ownedPath{owned("secrets")}},
	{group: "", kind: "Pod", runsToCompletion: true, remoteOwned: []ownedPath{owned("spec.nodeName")}},
	{group: "batch", kind: "Job", runsToCompletion: true, remoteOwned: []ownedPath{
		ownedUnless("spec.selector", "spec.manualSelector", true),
		ownedUnless(`spec.template.metadata.labels["controller-uid"]`, "spec.manualSelector", true),
		ownedUnless(`spec.template.metadata.labels["batch.kubernetes.io/controller-uid"]`, "spec.manualSelector", true),
		ownedUnless(`spec.template.metadata.labels["job-name"]`, "spec.manualSelector", true),
		ownedUnless(`spec.template.metadata.labels["batch.kubernetes.io/job-name"]`, "spec.manualSelector", true),
		ownedUnless(`metadata.labels["controller-uid"]`, "spec.manualSelector", true),
		ownedUnless(`metadata.labels["batch.kubernetes.io/controller-uid"]`, "spec.manualSelector", true),
	}},
	{group: "apps", kind: "DaemonSet", remoteOwned: []ownedPath{
		owned(`metadata.annotations["deprecated.daemonset.template.generation"]`),
	}},
	{group: "argoproj.io", kind: "Application", versions: []string{"v1alpha1"}, remoteOwned: []ownedPath{owned("operation")},
		project: &projectField{path: MustPath("spec.project")}},
	{group: "argoproj.io", kind: "Workflow", runsToCompletion: true},
	{group: "tekton.dev", kind: "TaskRun", runsToCompletion: true},
	{group: "tekton.dev", kind: "PipelineRun", runsToCompletion: true},
}

// defaultsOf returns the row of a kind; the zero row where there is none.
func defaultsOf(gvk schema.GroupVersionKind) kindDefault {
	for _, row := range kindDefaults {
		if row.group == gvk.Group && row.kind == gvk.Kind && (row.versions == nil || contains(row.versions, gvk.Version)) {
			return row
		}
	}
	return kindDefault{}
}

// RemoteOwnedPaths returns what belongs to the target side of a source: the rule's paths and the kind's defaults (O1, O3).
func RemoteOwnedPaths(rule *Rule, source map[string]any) []Path {
	paths := append([]Path(nil), rule.RemoteOwned...)
	for _, row := range defaultsOf(rule.Kind).remoteOwned {
		if row.unless == nil || !holds(source, row.unless, row.unlessValue) {
			paths = append(paths, row.path)
		}
	}
	return paths
}

// onTwinDeleted returns the rule's setting, or the kind's default (D4).
func (r *Rule) onTwinDeleted() TwinDeletedPolicy {
	switch {
	case r.Mode == ModeMirror: // which is a view, and runs nothing
		return TwinDeletedRecreate
	case r.OnTwinDeleted != "":
		return r.OnTwinDeleted
	case defaultsOf(r.Kind).runsToCompletion:
		return TwinDeletedHold
	}
	return TwinDeletedRecreate
}

// HoldsDeletedTwins reports whether a twin that others delete stays deleted (D4): then what has crossed must be
// remembered over restarts.
func (r *Rule) HoldsDeletedTwins() bool { return r.onTwinDeleted() == TwinDeletedHold }

// HoldsSecrets reports whether the values of a kind's objects may not be shown in logs, Events or errors (F4).
func HoldsSecrets(gvk schema.GroupVersionKind) bool { return defaultsOf(gvk).secret }

// NamesProject reports whether the table knows where objects of a kind name their project.
func NamesProject(gvk schema.GroupVersionKind) bool { return defaultsOf(gvk).project != nil }

// enforceProject writes the tenant's project over whatever a twin's body says, if the rule asks for it.
func (r *Rule) enforceProject(body map[string]any) map[string]any {
	field := defaultsOf(r.Kind).project
	if r.TenantProject == "" || field == nil {
		return body
	}
	if field.label != "" {
		labels := asObject(asObject(body["metadata"])["labels"])
		if value, _ := labels[field.label].(string); !contains(field.values, value) {
			return body
		}
	}
	value := r.TenantProject
	if field.base64 {
		value = base64.StdEncoding.EncodeToString([]byte(value))
	}
	return setAt(body, field.path, value)
}

// RunsToCompletion reports whether objects of a kind run, and are done then: one that is gone may have been cleaned up.
func RunsToCompletion(gvk schema.GroupVersionKind) bool { return defaultsOf(gvk).runsToCompletion }
