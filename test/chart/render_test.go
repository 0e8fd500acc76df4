package chart

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const least = "clusterID: consumer\n"

// Without customResources the chart renders no Crossing, and the rights are those of testdata/default.yaml, byte for byte.
// UPDATE_GOLDEN=1 writes it.
func TestS1_NoCustomResourcesRenderNothing(t *testing.T) {
	got, err := render(t, least)
	if err != nil {
		t.Fatal(err)
	}
	const golden = "testdata/default.yaml"
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if strings.Contains(got, "kind: Crossing") {
		t.Error("a Crossing without an entry")
	}
}
