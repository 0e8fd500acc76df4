package cli

import (
	"strings"
	"testing"
)

// What a command looks at is said by a file or by objects, and a flag of the other one is refused with what to do (F5).
func TestF5_FlagsOfAFileOrOfObjects(t *testing.T) {
	for args, want := range map[string]string{
		"":                                   "--config is missing: expected the file that says what crosses, or --controller",
		"--config f":                         "--remote-id is missing",
		"--remote east":                      "--remote is for --controller: add it",
		"--kubeconfig k":                     "--kubeconfig is for --controller: add it",
		"--controller --config f":            "--config and --controller: what crosses is said by a file or by objects: remove one of them",
		"--controller --remote-id r":         "--remote-id and --controller: name the RemoteCluster by --remote",
		"--controller --local-kubeconfig k":  "--local-kubeconfig and --controller: name the local cluster by --kubeconfig",
		"--controller --remote-kubeconfig k": "--remote-kubeconfig and --controller: RemoteClusters say how remotes are reached: remove it",
		"--controller --instance A":          `--instance "A": expected a DNS label`,
	} {
		for _, command := range [][]string{{"plan"}, {"explain", "widget/one"}} {
			args := append(append(command, "--cluster-id", "west"), strings.Fields(args)...)
			if _, err := run(args...); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v: %v, expected %s", args, err, want)
			}
		}
	}
}
