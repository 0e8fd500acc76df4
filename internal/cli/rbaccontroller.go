package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"isthmus.dev/isthmus/api/v1alpha1"
	"isthmus.dev/isthmus/internal/rbac"
)

// controllerInstance is the instance of isthmus controller where nothing else is said.
const controllerInstance = "controller"

// controllerFlags are the flags of isthmus rbac about controller mode.
type controllerFlags struct {
	crossings       string
	clusterProfiles bool
	liqo            bool
}

func (f *controllerFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.crossings, "crossings", "", "print what isthmus controller needs for the Crossings among these manifests; - reads standard input")
	flags.BoolVar(&f.clusterProfiles, "clusterprofiles", false, "with --crossings, add the right to read ClusterProfiles")
	flags.BoolVar(&f.liqo, "liqo", false, "with --crossings, add the right to read Liqo's NamespaceMaps, for --namespace-source=liqo")
}

func (f *controllerFlags) check() error {
	if f.crossings == "" && (f.clusterProfiles || f.liqo) {
		return errors.New("--clusterprofiles and --liqo are about --crossings: expected it, too")
	}
	return nil
}

// print prints the roles. The options are those of all roles; the rest is in the flags.
func (f *controllerFlags) print(cmd *cobra.Command, o rbac.Options) error {
	crossings, err := f.read(cmd.InOrStdin())
	if err != nil {
		return err
	}
	objects, err := rbac.Controller(rbac.ControllerOptions{
		Crossings: crossings, Side: o.Side, Instance: o.Instance, Name: o.Name, Namespace: o.Namespace, LeaderElect: o.LeaderElect,
		ClusterProfiles: f.clusterProfiles, Liqo: f.liqo, Subject: o.Subject,
	})
	if err != nil {
		return fmt.Errorf("making roles for %s: %w", f.crossings, err)
	}
	comments := []string{fmt.Sprintf("What isthmus controller needs on the %s side for %s.", o.Side, count(len(crossings), "Crossing"))}
	if o.Side == rbac.Remote {
		comments = append(comments, "It is for a cluster that gives no namespaces on request, and holds in all namespaces: the controller makes its own there.")
	}
	return rbac.Print(cmd.OutOrStdout(), comments, objects)
}

// read returns the Crossings among the manifests, in lists too; other kinds are left out.
func (f *controllerFlags) read(stdin io.Reader) ([]v1alpha1.Crossing, error) {
	in := stdin
	if f.crossings != "-" {
		file, err := os.Open(f.crossings)
		if err != nil {
			return nil, fmt.Errorf("reading --crossings: %w", err)
		}
		defer file.Close()
		in = file
	}
	var found []v1alpha1.Crossing
	documents := yaml.NewYAMLOrJSONDecoder(in, 4096)
	for n := 1; ; n++ {
		var document json.RawMessage
		err := documents.Decode(&document)
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err == nil {
			err = crossingsIn(document, &found)
		}
		if err != nil {
			return nil, fmt.Errorf("reading %s, document %d: %w", f.crossings, n, err)
		}
	}
}

// crossingsIn appends the Crossings of a document.
func crossingsIn(document json.RawMessage, found *[]v1alpha1.Crossing) error {
	var object struct {
		metav1.TypeMeta `json:",inline"`
		Items           []json.RawMessage `json:"items"`
	}
	if len(document) == 0 {
		return nil
	}
	if err := json.Unmarshal(document, &object); err != nil {
		return err
	}
	for _, item := range object.Items {
		if err := crossingsIn(item, found); err != nil {
			return err
		}
	}
	if object.GroupVersionKind() != v1alpha1.GroupVersion.WithKind("Crossing") {
		return nil
	}
	var c v1alpha1.Crossing
	if err := json.Unmarshal(document, &c); err != nil {
		return err
	}
	*found = append(*found, c)
	return nil
}
