package access

import (
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"isthmus.dev/isthmus/internal/config"
)

// Providers are the access plugins that the operator allows for ClusterProfiles: the file of
// --clusterprofile-provider-file, as KEP-5339 has it. For its tags see internal/config.
type Providers struct {
	// The providers, the preferred one first.
	List []Provider `json:"providers" required:"true"`
}

// Provider says how to use an access provider that profiles name.
type Provider struct {
	// Name, as in the profiles' status.accessProviders.
	Name string `json:"name" required:"true" example:"secretreader"`
	// The plugin to run.
	ExecConfig ExecConfig `json:"execConfig" required:"true"`
	// Whether arguments that a profile gives are added.
	ProfileSourcedCLIArgsPolicy ArgsPolicy `json:"profileSourcedCLIArgsPolicy" enum:"Append,Ignore" default:"Ignore"`
	// Whether variables that a profile gives are added, and which value counts where both give one.
	ProfileSourcedEnvVarsPolicy EnvPolicy `json:"profileSourcedEnvVarsPolicy" enum:"AppendIfNotExists,Replace,Ignore" default:"Ignore"`
}

// ExecConfig is a credential plugin, as kubeconfigs have it.
type ExecConfig struct {
	APIVersion string `json:"apiVersion" required:"true" enum:"client.authentication.k8s.io/v1,client.authentication.k8s.io/v1beta1"`
	// A name that is looked up in PATH, or a path; a relative one counts from the file's folder.
	Command string   `json:"command" required:"true" example:"/plugins/secretreader"`
	Args    []string `json:"args"`
	Env     []EnvVar `json:"env"`
	// Whether the plugin is told which cluster it is for.
	ProvideClusterInfo bool   `json:"provideClusterInfo" default:"false"`
	InteractiveMode    string `json:"interactiveMode" enum:"Never,IfAvailable" default:"Never"`
	InstallHint        string `json:"installHint"`
}

// EnvVar is a variable of a plugin's environment.
type EnvVar struct {
	Name  string `json:"name" required:"true" example:"HTTPS_PROXY"`
	Value string `json:"value" empty:"true"`
}

// ArgsPolicy says what becomes of a profile's arguments.
type ArgsPolicy string

// The policies for arguments.
const (
	ArgsAppend ArgsPolicy = "Append"
	ArgsIgnore ArgsPolicy = "Ignore"
)

// EnvPolicy says what becomes of a profile's variables.
type EnvPolicy string

// The policies for variables.
const (
	EnvAppendIfNotExists EnvPolicy = "AppendIfNotExists"
	EnvReplace           EnvPolicy = "Replace"
	EnvIgnore            EnvPolicy = "Ignore"
)

// ParseProviders reads the text of a provider file, JSON or YAML; path is where it is, or would be. The error is of type
// config.Errors, and holds all faults.
func ParseProviders(path string, data []byte) (*Providers, error) {
	p, err := config.Decode(filepath.ToSlash(path), data, "providers", "providers", check)
	if err != nil {
		return nil, err
	}
	for i := range p.List {
		if command := &p.List[i].ExecConfig.Command; strings.ContainsRune(*command, filepath.Separator) && !filepath.IsAbs(*command) {
			*command = filepath.Join(filepath.Dir(path), *command)
		}
	}
	return p, nil
}

func check(p *Providers, fault func(*field.Path, string, ...any)) {
	seen := map[string]int{}
	for i, provider := range p.List {
		at := field.NewPath("providers").Index(i)
		if first, ok := seen[provider.Name]; ok && provider.Name != "" {
			fault(at.Child("name"), "the provider %q is also providers[%d], and only the first would be used: remove one of them", provider.Name, first)
		} else {
			seen[provider.Name] = i
		}
		names := map[string]bool{}
		for j, v := range provider.ExecConfig.Env {
			name := at.Child("execConfig", "env").Index(j).Child("name")
			switch {
			case strings.ContainsAny(v.Name, "=\x00"):
				fault(name, "the name of a variable can't hold =: expected one like HTTPS_PROXY")
			case names[v.Name] && v.Name != "":
				fault(name, "the variable %q is there twice: remove one of them", v.Name)
			}
			names[v.Name] = true
		}
	}
}
