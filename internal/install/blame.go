package install

import (
	"encoding/base64"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"sigs.k8s.io/yaml"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/boundary"
)

// blame returns the error of a run of kustomize that failed, with the part of the Installation that is at fault, and
// without values of Secrets.
func blame(err error, resources string, docs []*document, spec v1alpha1.InstallationSpec) error {
	for n := range spec.Patches {
		_, err := build(resources, kustomization(v1alpha1.InstallationSpec{Patches: spec.Patches[:n+1]}))
		switch patch := spec.Patches[n]; {
		case err == nil:
		case mayPatchSecrets(patch):
			return fmt.Errorf("patches[%d]: it can't be applied; why is not told, since it may hold values of a Secret: expected a strategic merge patch of one of the objects, or a JSON 6902 patch with a target", n)
		default:
			return fmt.Errorf("patches[%d]: %s", n, withoutSecrets(err.Error(), docs))
		}
	}
	if _, err := build(resources, kustomization(v1alpha1.InstallationSpec{Replicas: spec.Replicas})); err != nil {
		return fmt.Errorf("replicas: %s", withoutSecrets(err.Error(), docs))
	}
	return fmt.Errorf("patches, images and replicas: %s", withoutSecrets(err.Error(), docs))
}

// mayPatchSecrets reports whether a patch is one of Secrets, as far as its text and its target tell.
func mayPatchSecrets(patch v1alpha1.ManifestPatch) bool {
	var object struct{ APIVersion, Kind string }
	if yaml.Unmarshal([]byte(patch.Patch), &object) == nil && object.Kind != "" {
		d := &document{object: map[string]any{"apiVersion": object.APIVersion, "kind": object.Kind}}
		if boundary.HoldsSecrets(d.gvk()) {
			return true
		}
	}
	if patch.Target == nil {
		return object.Kind == ""
	}
	matches, err := regexp.MatchString("^(?:"+patch.Target.Kind+")$", "Secret")
	return patch.Target.Kind == "" || err != nil || matches
}

// withoutSecrets makes a message fit for a condition: one line of bounded length without the values of Secrets.
func withoutSecrets(message string, docs []*document) string {
	const hidden, most = "[hidden]", 600
	var values []string
	for _, d := range docs {
		if !boundary.HoldsSecrets(d.gvk()) {
			continue
		}
		each(d.object, []string{"data"}, func(data map[string]any) {
			for _, value := range data {
				encoded, _ := value.(string)
				values = append(values, encoded)
				if decoded, err := base64.StdEncoding.DecodeString(encoded); err == nil {
					values = append(values, string(decoded))
				}
			}
		})
	}
	slices.SortFunc(values, func(a, b string) int { return len(b) - len(a) }) // one may contain another
	for _, value := range values {
		if len(value) >= 4 { // a shorter one is part of ordinary words
			message = strings.ReplaceAll(message, value, hidden)
		}
	}
	message = strings.Join(strings.FieldsFunc(message, unicode.IsSpace), " ")
	if runes := []rune(message); len(runes) > most {
		message = string(runes[:most]) + "…"
	}
	return message
}
