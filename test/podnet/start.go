package podnet

import (
	"errors"
	"os"
)

// TB is what Start needs of a test.
type TB interface {
	Helper()
	Cleanup(func())
	Skip(...any)
	Fatal(...any)
}

// Start is New for a test, which it skips where there can be no such networks, and says why. As root with CI=true it fails
// instead: what is to be shown there must not go unseen.
func Start(t TB, plan Plan) *Net {
	t.Helper()
	n, err := New(plan)
	t.Cleanup(n.Close)
	if errors.Is(err, ErrNotHere) && (os.Getenv("CI") != "true" || os.Geteuid() != 0) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return n
}
