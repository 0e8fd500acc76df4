//go:build unix

package e2e

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"isthmus.dev/isthmus/test/harness"
)

// marked is part of every value of a Secret here, and nowhere else.
const marked = "hunter2-marked"

func markedSecret(ns, name, metadata, data string) string {
	return fmt.Sprintf("{apiVersion: v1, kind: Secret, metadata: {name: %s, namespace: %s%s}, %s}", name, ns, metadata, data)
}

// noMarks fails the test when a marked value, plain or as base64, is in a text.
func noMarks(t *testing.T, where, text string) {
	t.Helper()
	encoded := base64.StdEncoding.EncodeToString([]byte(marked))
	for _, mark := range []string{marked, encoded[:len(encoded)-4]} {
		if i := strings.Index(text, mark); i >= 0 {
			t.Errorf("%s tells a Secret's value: …%s…", where, text[max(0, i-200):min(len(text), i+100)])
		}
	}
}

// TestF4_ValuesOfSecretsAreToldNowhere lets Secrets cross, change, fight, fail in every way and go, and searches all
// that Isthmus says.
func TestF4_ValuesOfSecretsAreToldNowhere(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"text", "json"} {
		t.Run(format, func(t *testing.T) {
			e := harness.New(t)
			ns := e.Namespace("a")
			config := fmt.Sprintf("version: v1\nlog_level: trace\nnamespaces: {%[1]s: %[1]s}\nsyncResources:\n- {apiVersion: v1, kind: Secret, direction: toHost}\n", ns)
			denyWhen(e, ns, "secrets", `'deny' in object.data`, `'no ' + string(object.data['deny']) + ' here'`)
			flags := harness.StartOptions{Flags: []string{"--log-format", format}}
			p := e.StartWith(config, flags)
			value := func(key string) string { return fmt.Sprintf("stringData: {%s: %s-%s}", key, marked, key) }

			e.Local.Create(markedSecret(ns, "plain", "", value("a")))
			// Applied as kubectl does, with the values in an annotation, in stringData's words too.
			e.Local.Create(markedSecret(ns, "applied", fmt.Sprintf(`, annotations: {kubectl.kubernetes.io/last-applied-configuration: '{"stringData":{"a":"%s"}}'}`, marked), value("a")))
			e.Local.Create(markedSecret(ns, "denied", "", value("deny")))
			e.Local.Create(markedSecret(ns, "toolarge", fmt.Sprintf(`, annotations: {note: %q}`, strings.Repeat("x", 262140-4)), value("a")))
			e.Remote.Create(markedSecret(ns, "foreign", "", value("theirs")))
			e.Local.Create(markedSecret(ns, "foreign", "", value("a")))
			e.Eventually(func() error { return secretHas(e.Remote, ns, "plain", "a", marked+"-a") })
			e.Eventually(func() error { return secretHas(e.Remote, ns, "applied", "a", marked+"-a") })
			e.Eventually(func() error { return e.Local.HasEvent(ns, "denied", "Warning", "denied") })
			e.Eventually(func() error { return e.Local.HasEvent(ns, "toolarge", "Warning", "CreateFailed") })
			e.Eventually(func() error { return e.Local.HasEvent(ns, "foreign", "Warning", "not created by this Isthmus") })
			if _, kept := e.Remote.Get("secrets", ns, "applied").GetAnnotations()["kubectl.kubernetes.io/last-applied-configuration"]; kept {
				t.Error("last-applied-configuration crossed")
			}

			// Changed on either side, and made immutable on the other: then the update is refused.
			e.Local.Patch("secrets", ns, "plain", value("b"))
			e.Remote.Patch("secrets", ns, "plain", "stringData: {a: "+marked+"-theirs}")
			e.Eventually(func() error { return secretHas(e.Remote, ns, "plain", "b", marked+"-b") })
			e.Eventually(func() error { return secretHas(e.Remote, ns, "plain", "a", marked+"-a") })
			e.Remote.Patch("secrets", ns, "plain", "immutable: true")
			e.Local.Patch("secrets", ns, "plain", value("c"))
			e.Eventually(func() error { return e.Local.HasEvent(ns, "plain", "Warning", "UpdateFailed") })
			// No room, no right, no server.
			e.Remote.Apply(fmt.Sprintf("apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: few, namespace: %s}\nspec: {hard: {count/secrets: \"1\"}}\n", ns))
			e.Remote.SetStatus("resourcequotas", ns, "few", `{hard: {count/secrets: "1"}, used: {count/secrets: "1"}}`)
			e.Eventually(func() error {
				_, err := e.Remote.TryCreate(markedSecret(ns, "probe", "", value("a")))
				if err == nil {
					e.Remote.Delete("secrets", ns, "probe")
					return fmt.Errorf("the quota does not count yet")
				}
				return nil
			})
			e.Local.Create(markedSecret(ns, "over", "", value("a")))
			e.Eventually(func() error { return e.Local.HasEvent(ns, "over", "Warning", "quota exceeded") })
			e.Remote.Patch("roles.rbac.authorization.k8s.io", ns, "isthmus-"+e.ID+"-remote", "rules: [{apiGroups: [''], resources: [secrets], verbs: [get, list, watch]}]")
			began := time.Now()
			e.Eventually(func() error {
				e.Local.Patch("secrets", ns, "applied", value("d"+fmt.Sprint(time.Since(began).Milliseconds())))
				return e.Local.HasEvent(ns, "applied", "Warning", "cannot patch resource")
			})
			e.GrantRBAC(e.WriteConfig(config))

			said := map[string]string{"the metrics": p.Metrics()}
			_, said["/readyz"] = p.Ready()
			e.Local.Delete("secrets", ns, "applied")
			p.Stop()
			p2 := e.StartWith(config, flags)
			p2.Stop()
			said["the log"], said["the log of the second run"] = p.Log(), p2.Log()
			for _, name := range []string{"plain", "applied", "denied", "toolarge", "foreign", "over"} {
				said["Events on "+name] = strings.Join(e.Local.Events(ns, name), "\n")
			}
			text, _ := field(e.Local.Get("configmaps", ledgerNamespace, "isthmus-"+e.ID), "data", "ledger").(string)
			said["the ledger"] = text
			for where, text := range said {
				if text == "" && !strings.HasPrefix(where, "Events") {
					t.Errorf("%s says nothing: this proves nothing", where)
				}
				noMarks(t, where, text)
			}
			refusals := 0
			for _, r := range e.Requests(began.Add(-time.Hour)) {
				if r.Side == "remote" && r.Verb == "patch" && r.Code() == http.StatusUnprocessableEntity {
					refusals++
				}
			}
			if refusals < 3 {
				t.Errorf("only %d refusals: this proves little", refusals)
			}
		})
	}
}

// secretHas returns nil when a Secret has a value.
func secretHas(side *harness.Side, ns, name, key, want string) error {
	obj := side.Get("secrets", ns, name)
	encoded, _ := field(obj, "data", key).(string)
	if have, _ := base64.StdEncoding.DecodeString(encoded); string(have) != want {
		return fmt.Errorf("%s has %s = %q", name, key, have)
	}
	return nil
}
