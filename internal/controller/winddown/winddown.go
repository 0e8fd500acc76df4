// Package winddown deletes objects of controller mode while the controller that holds their finalizers still runs, and
// waits until they are gone. It is what the chart does before rights or the controller itself go away (D5).
package winddown

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/dynamic"

	"isthmus.dev/isthmus/api/v1alpha1"
)

// Others says what becomes of objects that the selector leaves out, but that hold a finalizer of ours: when the
// controller is gone, nobody takes it off.
type Others string

// What becomes of others.
const (
	Refuse Others = "Refuse" // nothing is deleted at all
	Leave  Others = "Leave"  // they stay, and wait for a controller to come back
	Delete Others = "Delete" // they are deleted as well
)

// Kinds are the resources that can be wound down, in the order in which that makes sense.
var Kinds = []string{"crossings", "namespaceoffloadings", "remoteclusters", "consumers", "installations"}

// Options say what to delete.
type Options struct {
	Client dynamic.Interface
	// Resources are those to look at, of Kinds, one after the other.
	Resources []string
	// Selector selects the objects to delete, and Keep names those that stay all the same.
	Selector labels.Selector
	Keep     []string
	// Others says what becomes of those that are not selected.
	Others Others
	// Poll is the time between two looks; Out gets a line for each change.
	Poll time.Duration
	Out  io.Writer
}

// Run deletes what is to be deleted and returns when it is gone. When ctx ends first, the error says what is left, why,
// and what can be done. With Refuse, an error names the others, and nothing was deleted.
func Run(ctx context.Context, o Options) error {
	if o.Others == Refuse {
		if err := o.refuse(ctx); err != nil {
			return err
		}
	}
	for _, resource := range o.Resources {
		if err := o.empty(ctx, resource); err != nil {
			return err
		}
	}
	return nil
}

// refuse fails if there are others.
func (o Options) refuse(ctx context.Context) error {
	var others []string
	for _, resource := range o.Resources {
		items, err := o.list(ctx, resource)
		if err != nil {
			return err
		}
		for i := range items {
			if !o.selects(&items[i]) && held(&items[i]) {
				others = append(others, describe(resource, &items[i]))
			}
		}
	}
	if len(others) == 0 {
		return nil
	}
	return fmt.Errorf("nothing was deleted: %s did not come with this release and would never end without a controller: %s; delete them first (kubectl delete), or say that they are to be deleted, or left", count(len(others)), shorten(others))
}

// empty deletes the objects of a resource and waits until they are gone.
func (o Options) empty(ctx context.Context, resource string) error {
	var left map[string]string // why, by object
	for {
		items, err := o.list(ctx, resource)
		switch {
		case ctx.Err() != nil:
			return unfinished(resource, left)
		case err != nil:
			// An API server that does not answer for a moment is waited for; what is forbidden or unknown stays so.
			if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
				return err
			}
			o.say("%v", err)
		default:
			now := map[string]string{}
			for i := range items {
				if !o.selects(&items[i]) && o.Others != Delete {
					continue
				}
				name := describe(resource, &items[i])
				now[name] = why(&items[i])
				if err := o.delete(ctx, resource, &items[i]); err != nil {
					now[name] = err.Error()
				}
				if before, known := left[name]; !known || before != now[name] {
					o.say("%s: %s", name, now[name])
				}
			}
			for name := range left {
				if _, still := now[name]; !still {
					o.say("%s: gone", name)
				}
			}
			if left = now; len(left) == 0 {
				return nil
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(o.Poll):
		}
	}
}

func (o Options) list(ctx context.Context, resource string) ([]unstructured.Unstructured, error) {
	list, err := o.Client.Resource(v1alpha1.GroupVersion.WithResource(resource)).List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) { // its definition is gone, and all objects with it
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", resource, err)
	}
	return slices.DeleteFunc(list.Items, func(u unstructured.Unstructured) bool { return slices.Contains(o.Keep, u.GetName()) }), nil
}

func (o Options) selects(u *unstructured.Unstructured) bool {
	return o.Selector.Matches(labels.Set(u.GetLabels()))
}

// delete asks for a deletion, unless that was done.
func (o Options) delete(ctx context.Context, resource string, u *unstructured.Unstructured) error {
	if u.GetDeletionTimestamp() != nil {
		return nil
	}
	uid := u.GetUID()
	err := o.Client.Resource(v1alpha1.GroupVersion.WithResource(resource)).Namespace(u.GetNamespace()).
		Delete(ctx, u.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // gone, or another one by now: the next look tells
		return nil
	}
	return err
}

func (o Options) say(format string, args ...any) { fmt.Fprintf(o.Out, format+"\n", args...) }

// held reports whether an object has a finalizer of ours.
func held(u *unstructured.Unstructured) bool {
	return slices.ContainsFunc(u.GetFinalizers(), func(name string) bool {
		return strings.HasPrefix(name, v1alpha1.GroupVersion.Group+"/")
	})
}

// why says what an object that is to go waits for, as far as it shows.
func why(u *unstructured.Unstructured) string {
	if u.GetDeletionTimestamp() == nil {
		return "is deleted"
	}
	var reasons []string
	remotes, _, _ := unstructured.NestedSlice(u.Object, "status", "remotes")
	for _, r := range remotes {
		remote, _ := r.(map[string]any)
		if reason, _ := remote["reason"].(string); reason != "" {
			reasons = append(reasons, fmt.Sprintf("%v: %s", remote["cluster"], reason))
		}
	}
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, c := range conditions {
		condition, _ := c.(map[string]any)
		if message, _ := condition["message"].(string); condition["status"] == "False" {
			reasons = append(reasons, strings.TrimSuffix(fmt.Sprintf("%v (%v): %s", condition["type"], condition["reason"], message), ": "))
		}
	}
	if len(reasons) == 0 {
		return "waits for its finalizers: " + strings.Join(u.GetFinalizers(), ", ")
	}
	return "waits: " + strings.Join(reasons, "; ")
}

// describe names an object as kubectl takes it.
func describe(resource string, u *unstructured.Unstructured) string {
	name := resource + "." + v1alpha1.GroupVersion.Group + "/" + u.GetName()
	if u.GetNamespace() != "" {
		name += " in namespace " + u.GetNamespace()
	}
	return name
}

func unfinished(resource string, left map[string]string) error {
	if len(left) == 0 {
		return errors.New("the time was over before all was looked at; try again with more")
	}
	var all []string
	for name, reason := range left {
		all = append(all, name+" "+reason)
	}
	slices.Sort(all)
	return fmt.Errorf("%s still there when the time was over: %s; bring what they wait for back and try again, or let one go without tidying up its remote side: kubectl annotate %s NAME %s=true. Only a controller that runs can do either: see that it does",
		count(len(left)), shorten(all), resource+"."+v1alpha1.GroupVersion.Group, v1alpha1.ReleaseAnnotation)
}

func count(n int) string {
	if n == 1 {
		return "one object"
	}
	return fmt.Sprintf("%d objects", n)
}

// shorten joins the first few of many.
func shorten(all []string) string {
	const most = 10
	if more := len(all) - most; more > 0 {
		return strings.Join(all[:most], "; ") + fmt.Sprintf("; and %d more", more)
	}
	return strings.Join(all, "; ")
}
