//go:build unix

package chart

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"isthmus.dev/isthmus/internal/controlplane"
	"isthmus.dev/isthmus/internal/observe/logtest"
)

// kubelet stands in for nodes: what a pod would run, it runs as a process of this machine, with the pod's arguments and the
// rights of its ServiceAccount. How a Job ended it tells in the Job's status.
type kubelet struct {
	cluster *controlplane.Cluster
	client  kubernetes.Interface
	seen    map[string]bool

	output logtest.Log // what the processes wrote
}

// binaryDir is where the binary was built, if it was.
var binaryDir string

var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "isthmus-chart-")
	if err != nil {
		return "", err
	}
	binaryDir = dir
	path := filepath.Join(dir, "isthmus")
	build := exec.Command("go", "build", "-o", path, "./cmd/isthmus")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building isthmus: %w\n%s", err, out)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if binaryDir != "" {
		os.RemoveAll(binaryDir)
	}
	os.Exit(code)
}

// runKubelet runs Jobs until the test ends.
func runKubelet(t *testing.T, cluster *controlplane.Cluster) *kubelet {
	t.Helper()
	client, err := kubernetes.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := binary(); err != nil {
		t.Fatal(err)
	}
	k := &kubelet{cluster: cluster, client: client, seen: map[string]bool{}}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		for ; ctx.Err() == nil; time.Sleep(100 * time.Millisecond) {
			jobs, err := client.BatchV1().Jobs(namespace).List(ctx, metav1.ListOptions{})
			if err != nil {
				continue
			}
			for i := range jobs.Items {
				if job := &jobs.Items[i]; !k.seen[string(job.UID)] {
					k.seen[string(job.UID)] = true
					running.Go(func() { k.run(ctx, job) })
				}
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
		if t.Failed() {
			t.Logf("Processes:\n%s", k.output.String())
		}
	})
	return k
}

// run runs a Job to its end.
func (k *kubelet) run(ctx context.Context, job *batchv1.Job) {
	started := metav1.Now()
	pod := job.Spec.Template.Spec
	err := func() error {
		path, err := binary()
		if err != nil {
			return err
		}
		kubeconfig, err := k.cluster.ServiceAccountKubeconfig(ctx, namespace, pod.ServiceAccountName)
		if err != nil {
			return err
		}
		return k.command(ctx, path, append(pod.Containers[0].Args, "--kubeconfig="+kubeconfig)).Run()
	}()
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		fmt.Fprintf(&k.output, "Job %s: %v\n", job.Name, err)
	}
	if err := k.finish(ctx, job.Name, started, err == nil); err != nil {
		fmt.Fprintf(&k.output, "Job %s: telling its end: %v\n", job.Name, err)
	}
}

// command is a process that is told to stop, and then killed, when ctx ends.
func (k *kubelet) command(ctx context.Context, path string, args []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Stdout, cmd.Stderr = &k.output, &k.output
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// runDeployment runs one pod of a Deployment, from now until the Deployment is gone or the test ends. It listens on a free port.
func (k *kubelet) runDeployment(t *testing.T, name string) {
	t.Helper()
	deployment, err := k.client.AppsV1().Deployments(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	pod := deployment.Spec.Template.Spec
	kubeconfig, err := k.cluster.ServiceAccountKubeconfig(t.Context(), namespace, pod.ServiceAccountName)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := k.command(ctx, path, append(pod.Containers[0].Args, "--kubeconfig="+kubeconfig, "--listen=127.0.0.1:0"))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	go func() {
		for ; ctx.Err() == nil; time.Sleep(100 * time.Millisecond) {
			if _, err := k.client.AppsV1().Deployments(namespace).Get(ctx, name, metav1.GetOptions{}); apierrors.IsNotFound(err) {
				cancel()
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
}

// finish writes what the Job controller would.
func (k *kubelet) finish(ctx context.Context, name string, started metav1.Time, ok bool) error {
	job, err := k.client.BatchV1().Jobs(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	now := metav1.Now()
	condition := func(kind batchv1.JobConditionType) batchv1.JobCondition {
		return batchv1.JobCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: now, LastProbeTime: now}
	}
	job.Status.StartTime = &started
	job.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{}
	if ok {
		job.Status.Succeeded, job.Status.CompletionTime = 1, &now
		job.Status.Conditions = []batchv1.JobCondition{condition(batchv1.JobSuccessCriteriaMet), condition(batchv1.JobComplete)}
	} else {
		job.Status.Failed = 1
		job.Status.Conditions = []batchv1.JobCondition{condition(batchv1.JobFailureTarget), condition(batchv1.JobFailed)}
	}
	_, err = k.client.BatchV1().Jobs(namespace).UpdateStatus(ctx, job, metav1.UpdateOptions{})
	return err
}
