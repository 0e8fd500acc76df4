package adopt

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"isthmus.dev/isthmus/internal/boundary"
)

// attempts is how often an object is read again that keeps changing, or whose server gives no clear answer.
const attempts = 6

// attemptEvery is the first wait between two of them; each is twice as long as the one before.
const attemptEvery = 100 * time.Millisecond

var namespaceResource = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}

// take takes over one object, decided on anew from a live read: one apply with the whole stamp, then one patch that
// lets the former managers go. An error ends the run: the cluster can't be reached.
func (r *run) take(ctx context.Context, in boundary.Input) (Row, error) {
	client := r.f.To.Dynamic().Resource(r.ground.Twin.GroupVersionResource).Namespace(in.Place.Namespace)
	row, wait := Row{}, attemptEvery
	for attempt := range attempts {
		if attempt > 0 {
			select {
			case <-ctx.Done():
				return Row{}, ctx.Err()
			case <-time.After(wait):
			}
			wait *= 2
		}
		twin, err := client.Get(ctx, in.Place.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			twin, err = nil, nil
		}
		if err == nil {
			in.Twin = twin
			a := boundary.Adopt(in, r.Former)
			row = r.row(in, a)
			if row.Result != Adopt {
				return row, nil
			}
			if err = r.write(ctx, client, twin, a); err == nil {
				row.Result = Adopted
				return row, nil
			}
		}
		row = r.failed(in, "could not be adopted", err)
		var status apierrors.APIStatus
		switch answer, _ := boundary.Classify(boundary.OpUpdate, err); {
		case ctx.Err() != nil:
			return Row{}, ctx.Err()
		case answer == boundary.Stale, answer == boundary.Gone:
		case answer == boundary.Unknown && attempt == attempts-1 && !errors.As(err, &status):
			return Row{}, fmt.Errorf("%s cluster: %s", r.f.To.Role(), row.Why)
		case answer == boundary.Unknown:
		default:
			return row, nil
		}
	}
	return row, nil
}

// write carries out an adoption.
func (r *run) write(ctx context.Context, client dynamic.ResourceInterface, twin *unstructured.Unstructured, a boundary.Adoption) error {
	var err error
	if a.Outcome == boundary.AdoptTake {
		body := a.Body
		if a.Handover != nil {
			if twin, err = apply(ctx, client, twin.GetName(), a.Handover, boundary.HandoverManager, false); err != nil {
				return err
			}
			body = boundary.Bind(body, twin)
		}
		if twin, err = apply(ctx, client, twin.GetName(), body, boundary.FieldManager, true); err != nil {
			return err
		}
	}
	letGo := boundary.LetGo(twin, a.Rule, a.Managers)
	if letGo == nil {
		return nil
	}
	encoded, err := json.Marshal(letGo)
	if err != nil {
		return err
	}
	_, err = client.Patch(ctx, twin.GetName(), types.JSONPatchType, encoded, metav1.PatchOptions{FieldManager: boundary.FieldManager})
	return err
}

func apply(ctx context.Context, client dynamic.ResourceInterface, name string, body map[string]any, manager string, force bool) (*unstructured.Unstructured, error) {
	encoded, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	return client.Patch(ctx, name, types.ApplyPatchType, encoded, metav1.PatchOptions{FieldManager: manager, Force: &force})
}
