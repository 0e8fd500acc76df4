package boundary

import (
	"fmt"
	"slices"
	"strings"
)

// Gap is a place in objects of a kind whose content can't cross, or not always: the sources' side declares it, and the
// twins' side does not, or as something else (O7).
type Gap struct {
	// Path is the place; [*] stands for the items of a list and for the values of a map.
	Path Path
	// Here and There are the types that the two sides declare; both empty: the twins' side declares no such field.
	Here, There string
}

// String returns the path, and the types where they are what differs.
func (g Gap) String() string {
	if g.Here == "" {
		return g.Path.String()
	}
	return fmt.Sprintf("%s (%s here, %s there)", g.Path, g.Here, g.There)
}

// mostGaps bounds how many are told of one kind.
const mostGaps = 100

// Gaps compares what the two sides declare of a rule's kind, and returns what can't cross, in the order of the paths, at
// most a hundred. What belongs to the target side is not among it, nor what never crosses.
func (r *Rule) Gaps(sources, twins *Schema) []Gap {
	if sources == nil || twins == nil {
		return nil
	}
	never := []string{"apiVersion", "kind", "metadata"}
	if r.Mode != ModeMirror {
		never = append(never, "status")
	}
	top := *sources
	top.EmbeddedResource = false
	top.Properties = make(map[string]*Schema, len(sources.Properties))
	for name, s := range sources.Properties {
		if !slices.Contains(never, name) {
			top.Properties[name] = s
		}
	}
	owned := slices.Clone(r.RemoteOwned)
	for _, row := range defaultsOf(r.Kind).remoteOwned {
		if row.unless == nil {
			owned = append(owned, row.path)
		}
	}
	c := comparison{known: map[[2]*Schema][]Gap{}}
	return slices.DeleteFunc(c.gaps(&top, twins), func(g Gap) bool {
		return slices.ContainsFunc(owned, func(p Path) bool { return g.Path.within(p) })
	})
}

// within reports whether a path is at or under another one.
func (p Path) within(top Path) bool { return len(p) >= len(top) && slices.Equal(p[:len(top)], top) }

// comparison compares schemas. Each pair is compared once, however often it occurs.
type comparison struct {
	// known are the gaps of pairs, with paths that begin there. While a pair is compared it has none: what contains
	// itself says nothing new the second time.
	known map[[2]*Schema][]Gap
}

func (c *comparison) gaps(here, there *Schema) []Gap {
	if here == nil || there == nil { // anything goes
		return nil
	}
	pair := [2]*Schema{here, there}
	if found, ok := c.known[pair]; ok {
		return found
	}
	c.known[pair] = nil
	found := c.compare(here, there)
	found = found[:min(len(found), mostGaps)]
	c.known[pair] = found
	return found
}

func (c *comparison) compare(here, there *Schema) (found []Gap) {
	if !here.fits(there) {
		return []Gap{{Here: here.describe(), There: there.describe()}}
	}
	under := func(step Step, gaps ...Gap) {
		for _, g := range gaps {
			g.Path = append(Path{step}, g.Path...)
			found = append(found, g)
		}
	}
	each := Step{EachItem: true}
	under(each, c.gaps(here.Items, there.Items)...)
	if !there.mayBe("object") {
		return found // what may be anything here may be of another type, too
	}
	for _, name := range here.fields() {
		step := Step{Field: name}
		if child, declared := there.field(name); declared {
			under(step, c.gaps(here.Properties[name], child)...)
		} else if !there.PreserveUnknown {
			under(step, Gap{})
		}
	}
	if here.Additional != nil {
		switch _, anyKey := there.field(""); {
		case there.Additional != nil:
			under(each, c.gaps(here.Additional, there.Additional)...)
		case !anyKey && !there.PreserveUnknown:
			under(each, Gap{}) // a map of any keys here, and only certain ones there
		}
	}
	return found
}

// fields returns the names of the fields that a schema declares, in order.
func (s *Schema) fields() []string {
	names := sortedKeys(s.Properties)
	if s.EmbeddedResource {
		names = append(names, "apiVersion", "kind", "metadata")
		slices.Sort(names)
		names = slices.Compact(names)
	}
	return names
}

// types returns the types of the values that a schema admits; nil: any, or unknown.
func (s *Schema) types() []string {
	switch {
	case s.IntOrString:
		return []string{"integer", "string"}
	case s.Type == "number":
		return []string{"integer", "number"}
	case s.Type == "":
		return nil
	}
	return []string{s.Type}
}

// fits reports whether values of a schema's types may be of another one's. What may be anything is not said to be a
// misfit: it may fit.
func (s *Schema) fits(other *Schema) bool {
	admitted := other.types()
	return admitted == nil || !slices.ContainsFunc(s.types(), func(t string) bool { return !slices.Contains(admitted, t) })
}

// mayBe reports whether a schema admits values of a type.
func (s *Schema) mayBe(t string) bool { return s.types() == nil || slices.Contains(s.types(), t) }

func (s *Schema) describe() string {
	if s.Type == "number" {
		return s.Type
	}
	return strings.Join(s.types(), " or ")
}

// GapsMessage lists gaps, the first ones if they are many; empty: there are none.
func GapsMessage(gaps []Gap) string {
	const most = 20
	var texts []string
	for _, g := range gaps[:min(len(gaps), most)] {
		texts = append(texts, g.String())
	}
	if more := len(gaps) - most; more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(texts, ", ")
}
