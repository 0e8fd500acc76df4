//go:build unix

package harness

import "fmt"

// WidgetCRD is a CRD of kind Widget in a group, with defaults, keyed lists, an integer-or-string, a status subresource
// and a free-form status.
func WidgetCRD(group string) string { return widgetCRD(group, "", "{status: {}}") }

// WidgetCRDWith is WidgetCRD with more properties of spec, as YAML lines "name: {type: …}".
func WidgetCRDWith(group string, properties ...string) string {
	more := ""
	for _, p := range properties {
		more += "                " + p + "\n"
	}
	return widgetCRD(group, more, "{status: {}}")
}

// WidgetCRDWithoutStatus is WidgetCRD without a status subresource.
func WidgetCRDWithoutStatus(group string) string { return widgetCRD(group, "", "{}") }

func widgetCRD(group, more, subresources string) string {
	return fmt.Sprintf(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.%[1]s}
spec:
  group: %[1]s
  scope: Namespaced
  names: {kind: Widget, listKind: WidgetList, plural: widgets, singular: widget}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: %[3]s
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
                size: {type: integer}
                color: {type: string, default: red}
                amount: {x-kubernetes-int-or-string: true}
                replicas: {type: integer}
                data: {type: string}
                note: {type: string, nullable: true}
                limits: {type: object, additionalProperties: {x-kubernetes-int-or-string: true}}
                tags: {type: array, x-kubernetes-list-type: set, items: {type: string}}
                args: {type: array, items: {type: string}}
                ports:
                  type: array
                  x-kubernetes-list-type: map
                  x-kubernetes-list-map-keys: [port, protocol]
                  items:
                    type: object
                    required: [port]
                    properties:
                      port: {type: integer}
                      protocol: {type: string, default: TCP}
                      nodePort: {type: integer}
                      name: {type: string}
%[2]s          status:
            type: object
            x-kubernetes-preserve-unknown-fields: true
`, group, more, subresources)
}
