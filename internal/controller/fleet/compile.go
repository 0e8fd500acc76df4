package fleet

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/boundary"
	"isthmus.dev/isthmus/internal/config"
)

// Input is all that decides what crosses to which remote.
type Input struct {
	Crossings []v1alpha1.Crossing
	Pairs     []Pair
	Remotes   []Remote
	// Kind tells how the local cluster and a remote serve a resource.
	Kind func(remote string, resource schema.GroupVersionResource) Kind
	// Carried reports whether a Crossing has twins on a remote, or may have: where it is not selected any more, they go as
	// those of sources that are not.
	Carried func(crossing, remote string) bool
	// MassDeletion is the setting of the guard (F8).
	MassDeletion boundary.MassDeletion
	// Endpoints: those of Services cross with them.
	Endpoints bool
}

// Kind is how both sides serve a resource.
type Kind struct {
	// Kind is the resource's kind, by either side; empty: neither has told.
	Kind string
	// LocalStatus and RemoteStatus: there is a status subresource. A side that can't be asked counts as having one.
	LocalStatus, RemoteStatus bool
	// ClusterScoped: its objects have no namespace.
	ClusterScoped bool
	// LocalErr and RemoteErr say why a side does not serve it, or can't be asked; nil: it serves it.
	LocalErr, RemoteErr error
}

// Output is what crosses to each remote.
type Output struct {
	// Configs are what the engines run, by remote.
	Configs map[string]*config.Config
	// Crossings are what each Crossing came to, by name.
	Crossings map[string]Outcome
	// Kinds are what Crossings carry to or from each remote.
	Kinds map[string][]schema.GroupVersionResource
	// Wanted is what each remote is asked for: the resources, for the namespaces in the configuration.
	Wanted map[string][]v1alpha1.RequestedResource
}

// refused says, by Crossing, what is wrong with those that carry nothing.
func (o Output) refused() map[string]string {
	refused := map[string]string{}
	for name, outcome := range o.Crossings {
		if outcome.Err != nil {
			refused[name] = outcome.Err.Error()
		}
	}
	return refused
}

// Outcome is what a Crossing came to.
type Outcome struct {
	// Resource and Direction are the Crossing's own.
	Resource  schema.GroupVersionResource
	Direction boundary.Direction
	// Err says what is wrong with the Crossing, so that it carries nothing; nil: nothing.
	Err error
	// Remotes are those that it holds for, sorted.
	Remotes []string
	// Kinds are how it is served, by remote; Unserved says, by remote, why there is no rule yet.
	Kinds    map[string]Kind
	Unserved map[string]error
}

// Compile works out what crosses to each remote. A Crossing that is being deleted has no rule any more, which winds it down
// (D5).
func Compile(in Input) Output {
	out := Output{
		Configs: map[string]*config.Config{}, Crossings: map[string]Outcome{},
		Kinds: map[string][]schema.GroupVersionResource{}, Wanted: map[string][]v1alpha1.RequestedResource{},
	}
	for _, remote := range in.Remotes {
		out.Configs[remote.Name] = in.ground(remote)
	}
	crossings := slices.Clone(in.Crossings)
	slices.SortStableFunc(crossings, func(a, b v1alpha1.Crossing) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	specs := map[string][]string{} // of what the rules come from, by remote
	services, servicesStand := map[string]*followed{}, false
	for _, remote := range in.Remotes {
		services[remote.Name] = &followed{}
	}
	var sound []*v1alpha1.Crossing
	for i := range crossings {
		c := &crossings[i]
		outcome := Outcome{Resource: c.Spec.Resource.Schema(), Direction: boundary.Direction(c.Spec.Direction), Kinds: map[string]Kind{}, Unserved: map[string]error{}}
		selector, err := selectorOf(c.Spec.RemoteSelector)
		if err == nil {
			_, err = compileRule(c, "Kind", false) // whatever its kind is called
		} else {
			err = fmt.Errorf("spec.remoteSelector: %w", err)
		}
		if err == nil {
			err = against(c, sound)
		}
		if err == nil {
			err = in.ownEndpoints(c)
		}
		outcome.Err = err
		servicesStand = servicesStand || err == nil && c.DeletionTimestamp == nil && c.CarriesServices()
		for _, remote := range in.Remotes {
			selects := err == nil && selector.Matches(labels.Set(remote.Labels))
			if err != nil {
				stands(out.Configs[remote.Name], c)
				services[remote.Name].refused = services[remote.Name].refused || c.DeletionTimestamp == nil && c.CarriesServices()
				continue
			}
			if !selects && !in.Carried(c.Name, remote.Name) {
				continue
			}
			if selects {
				outcome.Remotes = append(outcome.Remotes, remote.Name)
			}
			kind := in.Kind(remote.Name, c.Spec.Resource.Schema())
			if kind.ClusterScoped && c.Spec.Direction != v1alpha1.FromRemote {
				outcome.Err = fmt.Errorf("%s is cluster-scoped: such kinds cross only as mirrors, with direction: FromRemote", c.Spec.Resource.Resource)
				stands(out.Configs[remote.Name], c)
				continue
			}
			// What is to be taken away takes rights too.
			out.Wanted[remote.Name] = append(out.Wanted[remote.Name], requested(c))
			if c.CarriesServices() {
				services[remote.Name].add(c, selects)
			}
			if c.DeletionTimestamp != nil {
				continue
			}
			out.Kinds[remote.Name] = append(out.Kinds[remote.Name], c.Spec.Resource.Schema())
			outcome.Kinds[remote.Name] = kind
			rule, err := ruleFor(c, kind)
			if rule != nil && !selects {
				rule.Selector = labels.Nothing()
			}
			if err != nil {
				outcome.Unserved[remote.Name] = err
				stands(out.Configs[remote.Name], c)
				continue
			}
			conf := out.Configs[remote.Name]
			conf.Rules = append(conf.Rules, rule)
			specs[remote.Name] = append(specs[remote.Name], c.Name, text(c.Spec), rule.Kind.Kind, fmt.Sprint(rule.ReturnStatus, selects))
		}
		if err == nil && c.DeletionTimestamp == nil {
			sound = append(sound, c)
		}
		out.Crossings[c.Name] = outcome
	}
	for remote, conf := range out.Configs {
		specs[remote] = append(specs[remote], in.follow(&out, remote, services[remote], servicesStand)...)
		conf.Hash = hashOf(conf, specs[remote])
	}
	return out
}

// stands notes that a Crossing is there, although it has no rule for now: that is no removal of the rule that it had (D).
func stands(conf *config.Config, c *v1alpha1.Crossing) {
	if c.DeletionTimestamp == nil {
		conf.Waiting = append(conf.Waiting, c.Name)
	}
}

// ground returns a remote's configuration without rules.
func (in Input) ground(remote Remote) *config.Config {
	conf := &config.Config{
		Namespaces: boundary.NamespacePairs{}, Confined: true, Events: true, MassDeletion: in.MassDeletion,
		CreateNamespaces: remote.Consent == v1alpha1.ConsentConsumer,
	}
	for _, pair := range in.Pairs {
		if pair.Cluster != remote.Name || pair.Ungranted {
			continue
		}
		if pair.Withdrawn {
			conf.Withdrawn = append(conf.Withdrawn, pair.Local)
			continue
		}
		conf.Namespaces[pair.Local] = pair.Remote
		if pair.Unready {
			conf.Unready = append(conf.Unready, pair.Local)
		}
	}
	slices.Sort(conf.Withdrawn)
	slices.Sort(conf.Unready)
	return conf
}

// ruleFor compiles the rule of a Crossing for a remote.
func ruleFor(c *v1alpha1.Crossing, kind Kind) (*boundary.Rule, error) {
	if kind.Kind == "" {
		return nil, fmt.Errorf("%w; %w", kind.LocalErr, kind.RemoteErr)
	}
	returns := c.Spec.Direction == v1alpha1.ToRemote && kind.LocalStatus && kind.RemoteStatus
	if s := c.Spec.Status; s != nil && s.Return != nil {
		returns = *s.Return
	}
	return compileRule(c, kind.Kind, returns)
}

// compileRule compiles a Crossing as an entry of a file is.
func compileRule(c *v1alpha1.Crossing, kind string, returnStatus bool) (*boundary.Rule, error) {
	s := &c.Spec
	entry := map[string]any{
		"name": c.Name, "apiVersion": schema.GroupVersion{Group: s.Resource.Group, Version: s.Resource.Version}.String(), "kind": kind,
		"policy": s.Policy, "specOwnership": s.SpecOwnership, "onRemoval": s.OnRemoval, "workers": s.Workers,
	}
	if s.Direction == v1alpha1.FromRemote {
		entry["direction"], entry["mode"] = "fromHost", "mirror"
	} else {
		entry["direction"], entry["mode"], entry["deletionPolicy"] = "toHost", "sync", s.DeletionPolicy
		entry["statusSync"] = returnStatus
		if s.Status != nil && s.Status.From != "" && returnStatus {
			entry["statusFrom"] = s.Status.From
		}
	}
	if s.Selector != nil {
		selector := map[string]any{}
		if len(s.Selector.MatchLabels) > 0 {
			selector["matchLabels"] = s.Selector.MatchLabels
		}
		if len(s.Selector.MatchExpressions) > 0 {
			selector["matchExpressions"] = s.Selector.MatchExpressions
		}
		entry["selector"] = selector
	}
	if len(s.Patches) > 0 {
		entry["patches"] = s.Patches
	}
	if len(s.RemoteOwnedFields) > 0 {
		entry["hostOwnedFields"] = s.RemoteOwnedFields
	}
	rule, err := config.CompileRule(entry)
	if err != nil {
		return nil, fmt.Errorf("spec is invalid: %w", err)
	}
	return rule, nil
}

// against finds what keeps a Crossing from standing beside older ones.
func against(c *v1alpha1.Crossing, others []*v1alpha1.Crossing) error {
	for _, other := range others {
		mine, theirs := c.Spec.Resource, other.Spec.Resource
		if mine.Group != theirs.Group || mine.Resource != theirs.Resource {
			continue
		}
		if mine.Version != theirs.Version {
			return fmt.Errorf("Crossing %s, which is older, carries %s in version %s: a kind crosses in one version; use the same in both", other.Name, mine.Resource, theirs.Version)
		}
		if c.Spec.Direction == other.Spec.Direction && sameSelection(c, other) {
			return fmt.Errorf("it selects the same objects as Crossing %s, which is older: give them different selectors or remotes, or delete one", other.Name)
		}
	}
	return nil
}

// sameSelection reports whether two Crossings select the same objects for the same remotes, whatever these are.
func sameSelection(a, b *v1alpha1.Crossing) bool {
	for _, selectors := range [][2]string{
		{text(a.Spec.Selector), text(b.Spec.Selector)}, {text(a.Spec.RemoteSelector), text(b.Spec.RemoteSelector)},
	} {
		if selectors[0] != selectors[1] {
			return false
		}
	}
	return true
}

// text writes a value so that equal ones read the same; an absent and an empty selector are equal.
func text(v any) string {
	encoded, err := json.Marshal(v)
	if err != nil || string(encoded) == "null" {
		return "{}"
	}
	return string(encoded)
}

// requested is what a provider is asked for, for a Crossing.
func requested(c *v1alpha1.Crossing) v1alpha1.RequestedResource {
	r := v1alpha1.RequestedResource{Group: c.Spec.Resource.Group, Resource: c.Spec.Resource.Resource, Access: v1alpha1.AccessWrite}
	if c.Spec.Direction == v1alpha1.FromRemote {
		r.Access = v1alpha1.AccessRead
	}
	return r
}

// hashOf tells configurations apart; specs are what its rules come from.
func hashOf(c *config.Config, specs []string) string {
	sum := sha256.Sum256([]byte(text([]any{specs, c.Namespaces, c.Withdrawn, c.Unready, c.Waiting, c.CreateNamespaces, c.MassDeletion})))
	return hex.EncodeToString(sum[:8])
}
