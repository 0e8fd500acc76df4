package rbac

import (
	"bytes"
	"fmt"
	"io"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// RoleNamespaces lists the namespaces that the objects are in, without those among the objects themselves.
func RoleNamespaces(objects []runtime.Object) []string {
	var created, used []string
	for _, object := range objects {
		switch o := object.(type) {
		case *corev1.Namespace:
			created = append(created, o.Name)
		case *rbacv1.Role:
			used = append(used, o.Namespace)
		}
	}
	return slices.DeleteFunc(used, func(namespace string) bool { return slices.Contains(created, namespace) })
}

// Print writes objects as YAML documents, after lines of comment.
func Print(w io.Writer, comments []string, objects []runtime.Object) error {
	var out bytes.Buffer
	for _, line := range comments {
		fmt.Fprintf(&out, "# %s\n", line)
	}
	for _, object := range objects {
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			return fmt.Errorf("encoding %T: %w", object, err)
		}
		for _, field := range []string{"spec", "status"} { // empty ones, that Go types always have
			if value, ok := fields[field].(map[string]any); ok && len(value) == 0 {
				delete(fields, field)
			}
		}
		text, err := yaml.Marshal(fields)
		if err != nil {
			return fmt.Errorf("encoding %T: %w", object, err)
		}
		out.WriteString("---\n")
		out.Write(text)
	}
	_, err := w.Write(out.Bytes())
	return err
}
