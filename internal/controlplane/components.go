//go:build unix

package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// advertisedAddress is nobody's: the API server wants one that is not loopback,
// and publishes it nowhere, as its endpoint reconciler is off. Naming one makes
// the start independent of the machine's network.
const advertisedAddress = "192.0.2.1"

// writeFiles writes what the components read: keys, certificates, kubeconfigs,
// the audit policy; and makes the admin's client.
func (c *Cluster) writeFiles() error {
	if c.options.PKIFrom != nil {
		c.pki = c.options.PKIFrom.pki
	} else {
		pki, err := newPKI()
		if err != nil {
			return err
		}
		c.pki = pki
	}
	for name, content := range map[string][]byte{
		"ca.crt":           c.pki.caPEM,
		"ca.key":           c.pki.caKeyPEM,
		"sa.key":           c.pki.saKeyPEM,
		"audit-policy.yml": auditPolicy(!c.options.NoAuditBodies),
	} {
		if err := os.WriteFile(c.path(name), content, 0o600); err != nil {
			return err
		}
	}
	if _, err := c.writeServingCert(c.options.ServingCertNotAfter); err != nil {
		return err
	}
	for user, groups := range map[string][]string{
		"admin":                          {"system:masters"},
		"system:kube-controller-manager": nil,
		"system:kube-scheduler":          nil,
		"kwok":                           {"system:masters"},
	} {
		if _, err := c.UserKubeconfig(user, groups...); err != nil {
			return err
		}
	}
	admin, err := c.UserConfig("admin", "system:masters")
	if err != nil {
		return err
	}
	c.admin = admin
	// Its own client checks nothing about the certificate that it is shown, so
	// that an expired one is no reason to call a cluster not ready.
	own := rest.CopyConfig(admin)
	own.CAData, own.Insecure = nil, true
	own.UserAgent = "controlplane"
	c.client, err = kubernetes.NewForConfig(own)
	return err
}

// command is how a component is started.
func (c *Cluster) command(component Component) (*exec.Cmd, error) {
	var args []string
	switch component {
	case Etcd:
		client := fmt.Sprintf("http://127.0.0.1:%d", c.etcdPort)
		peer := "http://127.0.0.1:0" // a single member: no peer connects
		args = []string{
			"--data-dir=" + c.path("etcd"),
			"--listen-client-urls=" + client,
			"--advertise-client-urls=" + client,
			"--listen-peer-urls=" + peer,
			"--initial-advertise-peer-urls=" + peer,
			"--initial-cluster=default=" + peer,
			"--unsafe-no-fsync",
			"--log-level=warn",
		}
	case APIServer:
		args = []string{
			fmt.Sprintf("--etcd-servers=http://127.0.0.1:%d", c.etcdPort),
			"--bind-address=127.0.0.1",
			"--secure-port=" + strconv.Itoa(c.port),
			"--advertise-address=" + advertisedAddress,
			"--endpoint-reconciler-type=none",
			"--tls-cert-file=" + c.path("serving.crt"),
			"--tls-private-key-file=" + c.path("serving.key"),
			"--client-ca-file=" + c.path("ca.crt"),
			"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
			"--service-account-key-file=" + c.path("sa.key"),
			"--service-account-signing-key-file=" + c.path("sa.key"),
			"--service-cluster-ip-range=10.0.0.0/16",
			"--authorization-mode=RBAC",
			"--allow-privileged",
			"--profiling=false",
		}
		if !c.options.NoAudit {
			args = append(args,
				"--audit-policy-file="+c.path("audit-policy.yml"),
				"--audit-log-path="+c.AuditFile(),
				"--audit-log-mode=blocking",
				"--audit-log-maxsize=1000000", // MB: one file, never rotated
			)
		}
		args = append(args, c.options.APIServerArgs...)
	case ControllerManager:
		port, err := c.healthPort(component)
		if err != nil {
			return nil, err
		}
		args = []string{
			"--kubeconfig=" + c.kubeconfigPath("system:kube-controller-manager"),
			"--bind-address=127.0.0.1",
			"--secure-port=" + strconv.Itoa(port),
			"--leader-elect=false",
			"--profiling=false",
			"--kube-api-qps=1000", "--kube-api-burst=1000", // the default's 20 a second slow the start down
			"--use-service-account-credentials", // RBAC grants each controller what it needs, and the program little
			"--node-monitor-period=1s",          // by default a new node takes no pods for 5 seconds
			"--node-monitor-grace-period=1h",    // pods of a node whose heart beats late on a busy machine would never be ready again
			"--service-account-private-key-file=" + c.path("sa.key"),
			"--root-ca-file=" + c.path("ca.crt"),
			"--cluster-signing-cert-file=" + c.path("ca.crt"),
			"--cluster-signing-key-file=" + c.path("ca.key"),
		}
	case Scheduler:
		port, err := c.healthPort(component)
		if err != nil {
			return nil, err
		}
		args = []string{
			"--kubeconfig=" + c.kubeconfigPath("system:kube-scheduler"),
			"--bind-address=127.0.0.1",
			"--secure-port=" + strconv.Itoa(port),
			"--leader-elect=false",
			"--profiling=false",
		}
	case Kwok:
		port, err := c.healthPort(component)
		if err != nil {
			return nil, err
		}
		stages, err := c.writeStages()
		if err != nil {
			return nil, err
		}
		args = []string{
			"--kubeconfig=" + c.kubeconfigPath("kwok"),
			"--config=" + stages,
			"--manage-all-nodes=true",
			fmt.Sprintf("--server-address=127.0.0.1:%d", port),
		}
	default:
		return nil, fmt.Errorf("%q is not a component of a cluster", component)
	}
	return exec.Command(c.bins.Path(component), args...), nil
}

// healthPort returns the port of a component's health check.
func (c *Cluster) healthPort(component Component) (int, error) {
	c.mu.Lock()
	port := c.ports[component]
	c.mu.Unlock()
	if port != 0 {
		return port, nil
	}
	port, err := c.reserve(0)
	if err != nil {
		return 0, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ports[component] = port
	return port, nil
}

// writeStages asks kwok's program for the stages that come with it: kwok itself
// has none, and does not run without.
func (c *Cluster) writeStages() (string, error) {
	stages, err := exec.Command(c.bins.Path(Kwok), "stages").Output()
	if err != nil {
		return "", fmt.Errorf("printing kwok's stages: %w", err)
	}
	path := c.path("kwok-stages.yml")
	return path, os.WriteFile(path, stages, 0o600)
}

// ready checks a component once.
func (c *Cluster) ready(ctx context.Context, component Component) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if component == APIServer {
		return c.client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	}
	c.mu.Lock()
	port := c.ports[component]
	c.mu.Unlock()
	switch component {
	case Etcd:
		return checkHealth(ctx, fmt.Sprintf("http://127.0.0.1:%d/readyz", c.etcdPort))
	case ControllerManager:
		if err := checkHealth(ctx, fmt.Sprintf("https://127.0.0.1:%d/healthz", port)); err != nil {
			return err
		}
		// Healthy comes before useful; without this pods are refused.
		_, err := c.client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		return err
	case Scheduler:
		return checkHealth(ctx, fmt.Sprintf("https://127.0.0.1:%d/readyz", port))
	case Kwok:
		return checkHealth(ctx, fmt.Sprintf("http://127.0.0.1:%d/healthz", port))
	}
	return fmt.Errorf("%q is not a component of a cluster", component)
}

func checkHealth(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := healthClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(response.Body, 1024))
		return fmt.Errorf("%s answers %s: %s", url, response.Status, body)
	}
	return nil
}

// waitNamespaces waits for the namespaces that a new API server makes by
// itself, and keeps the UID that tells clusters apart.
func (c *Cluster) waitNamespaces(ctx context.Context) error {
	for _, name := range []string{metav1.NamespaceDefault, metav1.NamespaceSystem} {
		err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, startTimeout, true, func(ctx context.Context) (bool, error) {
			namespace, err := c.client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return false, nil
			}
			if err == nil {
				c.uid = namespace.UID
			}
			return err == nil, err
		})
		if err != nil {
			return fmt.Errorf("waiting for namespace %s: %w", name, err)
		}
	}
	return nil
}

// writeFile replaces a file in one step.
func writeFile(path string, content []byte) error {
	temp, err := os.CreateTemp(filepath.Dir(path), ".new-")
	if err != nil {
		return err
	}
	_, err = temp.Write(content)
	err = errors.Join(err, temp.Close())
	if err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		_ = os.Remove(temp.Name())
	}
	return err
}
