package boundary

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// PatchType says what a patch does with the values that its path names (X1).
type PatchType string

// The types of patches (X2).
const (
	// RewriteName takes a string for the name of an object, and gives it the twin's.
	RewriteName PatchType = "rewriteName"
	// RewriteNamespace takes a string for a namespace, and gives it its counterpart.
	RewriteNamespace PatchType = "rewriteNamespace"
	// RewriteRef translates an object with name, and where present namespace, kind, group or apiVersion.
	RewriteRef PatchType = "rewriteRef"
	// RewriteHostRef takes such an object for a reference to something native to the target side.
	RewriteHostRef PatchType = "rewriteHostRef"
	// RewriteLabelSelector translates a label selector, or a plain map of labels that selects.
	RewriteLabelSelector PatchType = "rewriteLabelSelector"
	// PatchNone leaves the subtree as it is, also where a broader patch covers it.
	PatchNone PatchType = "none"
)

var patchTypes = []PatchType{
	RewriteName, RewriteNamespace, RewriteRef, RewriteHostRef, RewriteLabelSelector, PatchNone,
}

// Patch translates the values at a path (X1).
type Patch struct {
	Path Path
	Type PatchType
}

func (p Patch) String() string { return fmt.Sprintf("%s: %s", p.Path, p.Type) }

// Validate reports what keeps a patch from ever being applied, whatever others there are.
func (p Patch) Validate() error {
	if len(p.Path) == 0 {
		return errors.New("a patch needs a path, like spec.secretName")
	}
	if !slices.Contains(patchTypes, p.Type) {
		return fmt.Errorf("%s: there is no patch type %q: expected one of %v", p.Path, p.Type, patchTypes)
	}
	switch p.Path[0].Field {
	case "apiVersion", "kind":
		return fmt.Errorf("%s can't be patched: a twin is of its source's kind", p.Path)
	case "metadata":
		return p.validateMetadata()
	case "status":
		if p.Type == RewriteHostRef || p.Type == RewriteLabelSelector {
			return fmt.Errorf("%s: %s does not apply to a status, which only ever returns: expected %s, %s, %s or %s",
				p.Path, p.Type, RewriteName, RewriteNamespace, RewriteRef, PatchNone)
		}
	}
	return nil
}

func (p Patch) validateMetadata() error {
	if !p.ofAnnotation() {
		return fmt.Errorf(`%s can't be patched: of metadata only an annotation can, as metadata.annotations["key"]`, p.Path)
	}
	if key := p.Path[2].Field; ReservedKey(key) {
		return fmt.Errorf("%s can't be patched: the annotation %s never crosses from a source", p.Path, key)
	}
	if p.Type != RewriteName && p.Type != RewriteNamespace && p.Type != PatchNone {
		return fmt.Errorf("%s: %s does not apply to an annotation, which is a string: expected %s, %s or %s",
			p.Path, p.Type, RewriteName, RewriteNamespace, PatchNone)
	}
	return nil
}

func (p Patch) ofAnnotation() bool {
	return len(p.Path) == 3 && p.Path[0].Field == "metadata" && p.Path[1].Field == "annotations" && p.Path[2].Field != ""
}

// whole reports whether a patch of the type takes all that is at its path and below.
func (t PatchType) whole() bool { return t != "" && t != RewriteRef && t != RewriteHostRef }

// referenceFields are what RewriteRef and RewriteHostRef write in the object at their path.
var referenceFields = []string{"name", "namespace"}

// Patches are the patches of a rule, ready to be applied. A nil *Patches changes nothing.
type Patches struct {
	// content patches what crosses, status what returns.
	content, status *patchNode
}

// CompilePatches makes patches ready to be applied. Where several match a value, the most specific wins: step by step,
// one item of a list is more specific than every item, and a longer path than its beginning (X2). The error names every
// patch that can't be applied, and every two that contradict each other.
func CompilePatches(patches []Patch) (*Patches, error) {
	var errs []error
	content, status := &patchStep{}, &patchStep{}
	for _, patch := range patches {
		if err := patch.Validate(); err != nil {
			errs = append(errs, err)
			continue
		}
		top := content
		if patch.Path[0].Field == "status" {
			top = status
		}
		if err := top.add(patch); err != nil {
			errs = append(errs, err)
		}
	}
	r := &resolver{}
	compiled := &Patches{content: r.node([]*patchStep{content}), status: r.node([]*patchStep{status})}
	if err := errors.Join(append(errs, r.errs...)...); err != nil {
		return nil, err
	}
	return compiled, nil
}

// patchStep is a place in the tree of all paths as they were written.
type patchStep struct {
	patch *Patch // nil: no path ends here
	next  map[Step]*patchStep
}

func (s *patchStep) add(patch Patch) error {
	for _, step := range patch.Path {
		next, ok := s.next[step]
		if !ok {
			if s.next == nil {
				s.next = map[Step]*patchStep{}
			}
			next = &patchStep{}
			s.next[step] = next
		}
		s = next
	}
	switch {
	case s.patch == nil:
		s.patch = &patch
		return nil
	case s.patch.Type == patch.Type:
		return fmt.Errorf("%q is there twice: remove one", patch)
	}
	return fmt.Errorf("%q and %q contradict each other: keep one of them", s.patch, patch)
}

// patchNode is what to do with a value and what is in it. In contrast to patchStep, the contest between paths that
// match the same value is settled.
type patchNode struct {
	// patch wins at this very place; nil: none does.
	patch *Patch
	// implies is the core kind that the name of the field implies of a reference here; empty: none.
	implies string
	// fields are those that something is to be done in, in the order of their names.
	fields []patchField
	// each is for the items of a list that have no entry in items; nil: nothing is to be done in them.
	each  *patchNode
	items map[int]*patchNode
}

type patchField struct {
	name string
	node *patchNode
}

// patchType returns what wins at the place itself; empty: nothing.
func (n *patchNode) patchType() PatchType {
	if n == nil || n.patch == nil {
		return ""
	}
	return n.patch.Type
}

// field returns what is to be done in a field; nil: nothing.
func (n *patchNode) field(name string) *patchNode {
	if n == nil {
		return nil
	}
	for _, f := range n.fields {
		if f.name == name {
			return f.node
		}
	}
	return nil
}

// item returns what is to be done in the item of a list; nil: nothing.
func (n *patchNode) item(index int) *patchNode {
	if n == nil {
		return nil
	}
	if node, ok := n.items[index]; ok {
		return node
	}
	return n.each
}

// RefersByKind reports whether a rule's references name kinds, or fields that imply some, so that what becomes of them, or
// is told of them, depends on which cross.
func (r *Rule) RefersByKind() bool { return r.Patches != nil && r.Patches.content.refersByKind() }

func (n *patchNode) refersByKind() bool {
	if n == nil {
		return false
	}
	return n.patchType() == RewriteRef || n.implies != "" || n.each.refersByKind() ||
		slices.ContainsFunc(n.fields, func(f patchField) bool { return f.node.refersByKind() }) ||
		slices.ContainsFunc(sortedInts(n.items), func(i int) bool { return n.items[i].refersByKind() })
}

// leaf reports whether nothing is to be done below.
func (n *patchNode) leaf() bool { return len(n.fields) == 0 && n.each == nil && len(n.items) == 0 }

// resolver settles which patches win.
type resolver struct{ errs []error }

// node settles what to do with the values that all the steps match; the most specific step comes first. It returns nil
// for no steps.
func (r *resolver) node(steps []*patchStep) *patchNode {
	if len(steps) == 0 {
		return nil
	}
	node := &patchNode{}
	referenceAt := len(steps) // the steps behind it may not touch the fields of a reference
	for i, step := range steps {
		if step.patch == nil {
			continue
		}
		if node.patch == nil {
			node.patch, node.implies = step.patch, step.patch.impliedKind()
		}
		if step.patch.Type.whole() {
			steps = steps[:i+1]
			break
		}
		referenceAt = min(referenceAt, i)
	}
	r.fields(node, steps, referenceAt)
	r.items(node, steps)
	if t := node.patchType(); t.whole() && t != PatchNone && !node.leaf() {
		r.fail(fmt.Errorf("%q is inside of %q, which takes all that is there: remove one", node.below().patch, node.patch))
	}
	return node
}

func (r *resolver) fields(node *patchNode, steps []*patchStep, referenceAt int) {
	for _, name := range fieldsOf(steps) {
		var next []*patchStep
		for i, step := range steps {
			if s := step.next[Step{Field: name}]; s != nil && (i <= referenceAt || !contains(referenceFields, name)) {
				next = append(next, s)
			}
		}
		if inner := r.node(next); inner != nil {
			node.fields = append(node.fields, patchField{name, inner})
		}
	}
}

func (r *resolver) items(node *patchNode, steps []*patchStep) {
	indexes := map[int]bool{}
	for _, step := range steps {
		for s := range step.next {
			if s.IsIndex {
				indexes[s.Index] = true
			}
		}
	}
	matching := func(ways ...Step) (next []*patchStep) {
		for _, step := range steps {
			for _, way := range ways {
				if s := step.next[way]; s != nil {
					next = append(next, s)
				}
			}
		}
		return next
	}
	node.each = r.node(matching(Step{EachItem: true}))
	for _, index := range sortedInts(indexes) {
		if node.items == nil {
			node.items = map[int]*patchNode{}
		}
		node.items[index] = r.node(matching(Step{IsIndex: true, Index: index}, Step{EachItem: true}))
	}
}

// fail keeps an error, once: one path may be part of several contests.
func (r *resolver) fail(err error) {
	if !slices.ContainsFunc(r.errs, func(e error) bool { return e.Error() == err.Error() }) {
		r.errs = append(r.errs, err)
	}
}

// below returns a node below that has a patch.
func (n *patchNode) below() *patchNode {
	var nodes []*patchNode
	for _, f := range n.fields {
		nodes = append(nodes, f.node)
	}
	if n.each != nil {
		nodes = append(nodes, n.each)
	}
	for _, index := range sortedInts(n.items) {
		nodes = append(nodes, n.items[index])
	}
	for _, node := range nodes {
		if node.patch != nil {
			return node
		}
		if found := node.below(); found != nil {
			return found
		}
	}
	return nil
}

func fieldsOf(steps []*patchStep) []string {
	names := map[string]bool{}
	for _, step := range steps {
		for s := range step.next {
			if !s.EachItem && !s.IsIndex {
				names[s.Field] = true
			}
		}
	}
	return sortedKeys(names)
}

func sortedInts[V any](m map[int]V) []int { return slices.Sorted(maps.Keys(m)) }
