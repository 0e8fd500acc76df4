package flow

import (
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A reason that is about a missing right ends with the command that prints it; others do not.
func TestReasonsOfMissingRightsNameTheCommand(t *testing.T) {
	forbidden := fmt.Errorf("reading: %w", apierrors.NewForbidden(schema.GroupResource{Resource: "widgets"}, "", errors.New("no")))
	for _, test := range []struct {
		err            error
		command, added string
	}{
		{forbidden, "isthmus rbac", ": apply the output of isthmus rbac"},
		{fmt.Errorf("kind: %w", lacking{errors.New("RBAC lacks list")}), "isthmus rbac --format vcluster", ": apply the output of isthmus rbac --format vcluster"},
		{forbidden, "", ""},
		{errors.New("another"), "isthmus rbac", ""},
	} {
		f := &Flow{Options: Options{Rights: test.command}}
		if got := f.waiting(test.err).Reason; got != test.err.Error()+test.added {
			t.Error(got)
		}
	}
}
