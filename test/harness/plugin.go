//go:build unix

package harness

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"text/template"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"isthmus.dev/isthmus/internal/boundary"
)

// Plugin is Isthmus as the plugin of a virtual cluster: its process belongs to a test host, which is to it what vCluster is.
type Plugin struct {
	*Isthmus
	answers *bufio.Reader
	input   io.WriteCloser
	// Booted is the error with which the plugin answered Initialize; nil: the tenant's control plane would start.
	Booted error
}

// PluginOptions say what a plugin is started with.
type PluginOptions struct {
	// Name and Namespace are the virtual cluster's, in its host.
	Name, Namespace string
	// File is a vcluster.yaml. What its plugin's block rbac says is granted, as vCluster's chart does it.
	File string
	// Listen replaces the address for health and metrics; empty: a free one.
	Listen string
	// Virtual and Host replace the kubeconfigs.
	Virtual, Host string
	// Follower does not tell the plugin to lead; NotReady does not wait until it is ready.
	Follower, NotReady bool
}

// StartPlugin starts the plugin, and waits until it is ready if it was told to lead.
func (e *Env) StartPlugin(o PluginOptions) *Plugin {
	e.T.Helper()
	var values map[string]any
	if err := yaml.Unmarshal([]byte(o.File), &values); err != nil {
		e.T.Fatal(err)
	}
	block := values["plugin"].(map[string]any)["isthmus"].(map[string]any)
	if settings, ok := block["config"].(map[string]any); ok {
		rules, err := yaml.Marshal(settings)
		if err != nil {
			e.T.Fatal(err)
		}
		named := boundary.VirtualCluster{Name: o.Name, HostNamespace: o.Namespace}
		e.hold = boundary.Identity{Home: named.ClusterID(), Instance: e.ID}.Finalizer("host")
		e.Allow(string(rules))
		if o.Listen == "" {
			o.Listen = freeAddress(e)
		}
		settings["listen"] = o.Listen
		if settings["instance"] == nil {
			settings["instance"] = e.ID // tests share clusters
		}
	}
	e.grantPlugin(o, values, block)
	file, err := yaml.Marshal(values)
	if err != nil {
		e.T.Fatal(err)
	}
	if o.Virtual == "" {
		e.Local.Apply(fmt.Sprintf(`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: admin-%s},
			roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}, subjects: [{kind: User, name: %[1]s, apiGroup: rbac.authorization.k8s.io}]}`, e.User()))
		o.Virtual = e.LocalKubeconfig()
	}
	if o.Host == "" {
		o.Host = e.RemoteKubeconfig()
	}
	folder := filepath.Join(e.dir, fmt.Sprintf("plugins-%d", counter.Add(1)), "isthmus")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		e.T.Fatal(err)
	}
	binary := filepath.Join(folder, "plugin")
	if err := os.Symlink(Binary(e.T), binary); err != nil {
		e.T.Fatal(err)
	}
	p := &Plugin{Isthmus: &Isthmus{env: e, listen: o.Listen, done: make(chan struct{})}}
	p.cmd = exec.Command(hostBinary(e), "-plugin", binary, "-name", o.Name, "-namespace", o.Namespace,
		"-config", e.WriteConfig(string(file)), "-virtual", o.Virtual, "-host", o.Host)
	p.cmd.Env = append(os.Environ(), "TMPDIR="+shortDir(e))
	p.cmd.Stderr = p.Isthmus
	p.cmd.SysProcAttr = childAttributes()
	answers, err := p.cmd.StdoutPipe()
	if err == nil {
		p.input, err = p.cmd.StdinPipe()
	}
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		e.T.Fatalf("start the plugin's host: %v", err)
	}
	e.running = append(e.running, p.Isthmus)
	p.answers = bufio.NewReader(answers)
	booted, err := p.answer()
	p.Booted = err
	go func() {
		// Not Wait, which would close the pipe that answers are read from.
		_, _ = p.cmd.Process.Wait()
		close(p.done)
	}()
	if err != nil {
		return p
	}
	if pid, _, found := strings.Cut(strings.TrimPrefix(booted, "ok pid="), " "); found {
		p.pid, _ = strconv.Atoi(pid)
	}
	if !o.Follower {
		if _, err := p.Call("leader"); err != nil {
			e.T.Fatal(err)
		}
	}
	if !o.Follower && !o.NotReady {
		p.WaitReady()
	}
	return p
}

// End lets the host end as vCluster does, and checks that the plugin's process ends too.
func (p *Plugin) End() {
	p.env.T.Helper()
	if _, err := p.Call("end"); err != nil {
		p.env.T.Error(err)
	}
	p.Wait()
	p.Gone(Patience)
}

// Gone waits until the plugin's process has ended.
func (p *Plugin) Gone(limit time.Duration) {
	p.env.T.Helper()
	p.env.Within(limit, func() error {
		if p.Alive() {
			return fmt.Errorf("the plugin, process %d, still runs", p.pid)
		}
		return nil
	})
}

// shortDir is a folder with a path that is short enough for sockets in it.
func shortDir(e *Env) string {
	dir, err := os.MkdirTemp("", "vc")
	if err != nil {
		e.T.Fatal(err)
	}
	e.T.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// Call lets the host make a call ("leader", "mutate TEXT", "initialize TEXT", "end"), and returns the answer.
func (p *Plugin) Call(command string) (string, error) {
	p.env.T.Helper()
	if _, err := fmt.Fprintln(p.input, command); err != nil {
		p.env.T.Fatal(err)
	}
	return p.answer()
}

func (p *Plugin) answer() (string, error) {
	p.env.T.Helper()
	line, err := p.answers.ReadString('\n')
	if err != nil {
		p.env.T.Fatalf("the plugin's host ended: %v\n%s", err, tail(p.Log(), 20))
	}
	line = strings.TrimSpace(line)
	if text, failed := strings.CutPrefix(line, "error: "); failed {
		rest := "" // an error may have several lines; what is there by now belongs to it
		for p.answers.Buffered() > 0 {
			more, _ := p.answers.ReadString('\n')
			rest += "\n" + strings.TrimSpace(more)
		}
		return "", fmt.Errorf("%s%s", text, rest)
	}
	return line, nil
}

// HostPID returns the ID of the host's process.
func (p *Plugin) HostPID() int { return p.cmd.Process.Pid }

// Alive reports whether the plugin's own process runs. One that has ended and that nobody has asked after does not.
func (p *Plugin) Alive() bool {
	if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.pid)); err == nil && strings.Contains(string(stat), ") Z ") {
		return false
	}
	return p.pid != 0 && syscall.Kill(p.pid, 0) == nil
}

// PluginUser is whom the plugin of a virtual cluster is on the host: the service account that vCluster runs as.
func PluginUser(name, namespace string) string {
	return "system:serviceaccount:" + namespace + ":vc-" + name
}

// grantPlugin does what vCluster's chart does for a plugin: rules go to the Role and the ClusterRole of the release,
// manifests are rendered. Besides, the chart's own Role lets Services be read.
func (e *Env) grantPlugin(o PluginOptions, values, block map[string]any) {
	e.T.Helper()
	if e.remoteUser == "" {
		e.remoteUser = PluginUser(o.Name, o.Namespace)
	}
	encoded, err := yaml.Marshal(block["rbac"])
	if err != nil {
		e.T.Fatal(err)
	}
	var granted struct {
		Role, ClusterRole struct{ ExtraRules []rbacv1.PolicyRule }
	}
	if err := yaml.UnmarshalStrict(encoded, &granted); err != nil {
		e.T.Fatal(err)
	}
	role := append(granted.Role.ExtraRules, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"services"}, Verbs: []string{"get"}, ResourceNames: []string{o.Name}})
	subject := fmt.Sprintf("[{kind: ServiceAccount, name: vc-%s, namespace: %s}]", o.Name, o.Namespace)
	e.Remote.Apply(fmt.Sprintf(`
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: vc-%[1]s, namespace: %[2]s}
rules: %[3]s
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: vc-%[1]s, namespace: %[2]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: vc-%[1]s}
subjects: %[4]s
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: vc-%[1]s-v-%[2]s}
rules: %[5]s
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: vc-%[1]s-v-%[2]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: vc-%[1]s-v-%[2]s}
subjects: %[4]s
`, o.Name, o.Namespace, flow(e, role), subject, flow(e, granted.ClusterRole.ExtraRules)))
	deployed := values
	for _, key := range []string{"experimental", "deploy", "host"} {
		deployed, _ = deployed[key].(map[string]any)
	}
	manifests, _ := deployed["manifestsTemplate"].(string)
	if manifests == "" {
		return
	}
	rendered, err := template.New("manifests").Parse(manifests)
	if err != nil {
		e.T.Fatal(err)
	}
	var out strings.Builder
	if err := rendered.Execute(&out, map[string]any{"Release": map[string]any{"Name": o.Name, "Namespace": o.Namespace}}); err != nil {
		e.T.Fatal(err)
	}
	e.Remote.Apply(out.String())
}

// flow writes rules in one line.
func flow(e *Env, rules []rbacv1.PolicyRule) string {
	encoded, err := yaml.Marshal(rules)
	if err == nil {
		encoded, err = yaml.YAMLToJSON(encoded)
	}
	if err != nil {
		e.T.Fatal(err)
	}
	return string(encoded)
}

// PluginFile makes a complete vcluster.yaml of a plugin's configuration, with the rights that isthmus rbac prints for it.
func (e *Env) PluginFile(settings string) string {
	e.T.Helper()
	var config map[string]any
	if err := yaml.Unmarshal([]byte(settings), &config); err != nil {
		e.T.Fatal(err)
	}
	values := map[string]any{"plugin": map[string]any{"isthmus": map[string]any{"version": "v2", "image": "isthmus-plugin:latest", "config": config}}}
	file, err := yaml.Marshal(values)
	if err != nil {
		e.T.Fatal(err)
	}
	out, code := Run(e.T, "rbac", "--config", e.WriteConfig(string(file)), "--format", "vcluster")
	if code != 0 {
		e.T.Fatalf("isthmus rbac: exit code %d: %s", code, out)
	}
	var granted map[string]any
	if err := yaml.Unmarshal([]byte(out), &granted); err != nil {
		e.T.Fatal(err)
	}
	block := values["plugin"].(map[string]any)["isthmus"].(map[string]any)
	block["rbac"] = granted["plugin"].(map[string]any)["isthmus"].(map[string]any)["rbac"]
	values["experimental"] = granted["experimental"]
	if file, err = yaml.Marshal(values); err != nil {
		e.T.Fatal(err)
	}
	return string(file)
}

var building sync.Mutex

// hostBinary returns the path of the test host, compiled once.
func hostBinary(e *Env) string {
	e.T.Helper()
	path := filepath.Join(filepath.Dir(Binary(e.T)), "vclusterhost")
	building.Lock()
	defer building.Unlock()
	if _, err := os.Stat(path); err == nil {
		return path
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "go", "build", "-o", path, "isthmus.dev/isthmus/test/vclusterhost").CombinedOutput()
	if err != nil {
		e.T.Fatalf("build the plugin's host: %v\n%s", err, out)
	}
	return path
}
