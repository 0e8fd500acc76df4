package install

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/kustomize/kyaml/resid"
	"sigs.k8s.io/yaml"

	"isthmus.dev/isthmus/api/v1alpha1"
)

// kustomizing holds one run of kustomize at a time: it keeps the schemas that it works with in variables of its package.
var kustomizing sync.Mutex

// customize applies patches, images and replicas, as kustomize does.
func customize(docs []*document, spec v1alpha1.InstallationSpec) ([]*document, error) {
	if len(spec.Patches) == 0 && len(spec.Images) == 0 && len(spec.Replicas) == 0 {
		return docs, nil
	}
	origins := map[key]origin{}
	var resources strings.Builder
	for _, d := range docs {
		u := d.u()
		if prefix := u.GetGenerateName(); prefix != "" && u.GetName() == "" {
			u.SetName(generatedName(prefix, contentHash(d, ""))) // for kustomize, which wants one; move gives the final one
		}
		origins[writtenKey(d)] = d.origin
		text, err := json.Marshal(d.object)
		if err != nil {
			return nil, d.fault("encoding it: %v", err)
		}
		resources.WriteString("---\n")
		resources.Write(text)
		resources.WriteString("\n")
	}
	built, err := build(resources.String(), kustomization(spec))
	if err != nil {
		return nil, blame(err, resources.String(), docs, spec)
	}
	var out []*document
	for _, object := range built {
		d := &document{object: object}
		if at, ok := origins[writtenKey(d)]; ok {
			d.origin = at
		} else {
			d.origin = origin{where: "what the patches make"}
		}
		out = append(out, d)
	}
	if len(out) == 0 {
		return nil, errors.New("the patches leave no object: expected at least one")
	}
	return out, nil
}

// writtenKey is what the manifests know an object by.
func writtenKey(d *document) key {
	return key{GroupKind: d.gvk().GroupKind(), namespace: d.u().GetNamespace(), name: d.u().GetName()}
}

// kustomization returns what the Installation says, in kustomize's words.
func kustomization(spec v1alpha1.InstallationSpec) types.Kustomization {
	k := types.Kustomization{
		TypeMeta:  types.TypeMeta{APIVersion: types.KustomizationVersion, Kind: types.KustomizationKind},
		Resources: []string{"resources.yaml"},
	}
	for _, patch := range spec.Patches {
		p := types.Patch{Patch: patch.Patch}
		if t := patch.Target; t != nil {
			p.Target = &types.Selector{
				ResId: resid.ResId{
					Gvk:  resid.Gvk{Group: t.Group, Version: t.Version, Kind: t.Kind},
					Name: t.Name, Namespace: t.Namespace,
				},
				LabelSelector: t.LabelSelector, AnnotationSelector: t.AnnotationSelector,
			}
		}
		k.Patches = append(k.Patches, p)
	}
	for _, image := range spec.Images {
		k.Images = append(k.Images, types.Image{Name: image.Name, NewName: image.NewName, NewTag: image.NewTag, Digest: image.Digest})
	}
	for _, replicas := range spec.Replicas {
		k.Replicas = append(k.Replicas, types.Replica{Name: replicas.Name, Count: replicas.Count})
	}
	return k
}

// build runs kustomize in memory.
func build(resources string, k types.Kustomization) (objects []map[string]any, err error) {
	kustomizing.Lock()
	defer kustomizing.Unlock()
	defer func() {
		if fault := recover(); fault != nil {
			objects, err = nil, fmt.Errorf("kustomize: %v", fault)
		}
	}()
	text, err := yaml.Marshal(k)
	if err != nil {
		return nil, err
	}
	files := filesys.MakeFsInMemory()
	for name, content := range map[string]string{"kustomization.yaml": string(text), "resources.yaml": resources} {
		if err := files.WriteFile(name, []byte(content)); err != nil {
			return nil, err
		}
	}
	resmap, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(files, ".")
	if err != nil {
		return nil, err
	}
	for _, resource := range resmap.Resources() {
		text, err := resource.MarshalJSON()
		if err != nil {
			return nil, err
		}
		var object map[string]any
		if err := utiljson.Unmarshal(text, &object); err != nil {
			return nil, err
		}
		objects = append(objects, object)
	}
	return objects, nil
}
