package install

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// key is what a cluster knows an object by, whatever the version of its kind.
type key struct {
	schema.GroupKind
	namespace, name string
}

// keyOf returns the object's key where it goes.
func keyOf(d *document, to target) key {
	u := d.u()
	k := key{GroupKind: d.gvk().GroupKind(), name: u.GetName()}
	if d.namespaced {
		k.namespace = to.of(u.GetNamespace())
	}
	if generated := u.GetGenerateName(); generated != "" && k.name == "" {
		k.name = generatedName(generated, contentHash(d, k.namespace))
	}
	return k
}

// collapse leaves one of several documents that say the same of an object, the first. Those that say different things are
// refused, also where they come from two namespaces and meet in one.
func collapse(docs []*document, to target) ([]*document, error) {
	first := map[key]*document{}
	var out []*document
	var faults []error
	for _, d := range docs {
		k := keyOf(d, to)
		earlier := first[k]
		switch {
		case earlier == nil:
			first[k] = d
			out = append(out, d)
		case !sameContent(earlier, d, k.namespace):
			faults = append(faults, differ(earlier, d, k))
		}
		if len(faults) == maxFaults {
			break
		}
	}
	return out, errors.Join(faults...)
}

func differ(earlier, d *document, k key) error {
	one, other := earlier.u().GetNamespace(), d.u().GetNamespace()
	if d.namespaced && one != other {
		var moved []string
		for _, namespace := range []string{one, other} {
			if namespace != "" && namespace != k.namespace {
				moved = append(moved, namespace)
			}
		}
		return d.fault("it goes to the namespace %s under the same name as %s (%s), and differs from it: expected different names, or one of %s in keepNamespaces",
			k.namespace, earlier.name(), earlier.origin, strings.Join(moved, " and "))
	}
	return d.fault("it is there already, and differs: see %s; expected one of them", earlier.origin)
}

// sameContent reports whether two objects say the same, apart from the namespace that they come from.
func sameContent(a, b *document, namespace string) bool {
	return reflect.DeepEqual(inNamespace(a, namespace), inNamespace(b, namespace))
}

// inNamespace returns the object with another namespace, or none; what is below metadata is shared.
func inNamespace(d *document, namespace string) map[string]any {
	object := shallow(d.object)
	metadata := shallow(object["metadata"].(map[string]any))
	delete(metadata, "namespace")
	if namespace != "" {
		metadata["namespace"] = namespace
	}
	object["metadata"] = metadata
	return object
}

func shallow(fields map[string]any) map[string]any {
	out := make(map[string]any, len(fields))
	for key, value := range fields {
		out[key] = value
	}
	return out
}

// contentHash is a hash of the object as it is in a namespace, without the name.
func contentHash(d *document, namespace string) string {
	object := inNamespace(d, namespace)
	delete(object["metadata"].(map[string]any), "name")
	return hash(object)
}

// hash returns a hash of a JSON value.
func hash(value any) string {
	text, err := json.Marshal(value) // map keys are sorted
	if err != nil {
		panic(fmt.Sprintf("encoding what was decoded from JSON: %v", err))
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// generatedName is a name that is always the same for the same content: 10 digits of its hash after the prefix, which is
// shortened so that the whole is a label, as names of Jobs and Pods have to be.
func generatedName(prefix, hash string) string {
	const digits, label = 10, 63
	if len(prefix) > label-digits {
		prefix = prefix[:label-digits]
	}
	return prefix + hash[:digits]
}
