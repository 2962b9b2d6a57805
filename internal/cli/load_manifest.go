package cli

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

// Paths and names in the pod.
const (
	// podVolume is fettle's directory. Every user may write to the volume above it.
	podVolume = "/var/lib/fettle"
	podState  = podVolume + "/state"
	podFiles  = "/etc/fettle-load"
	jobName   = "fettle-load"
)

// job is a Kubernetes Job (batch/v1) with the fields that a load needs.
type job struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string `yaml:"kind"`
	Metadata   struct {
		Name string `yaml:"name"`
	} `yaml:"metadata"`
	Spec struct {
		BackoffLimit int `yaml:"backoffLimit"`
		Template     struct {
			Spec podSpec `yaml:"spec"`
		} `yaml:"template"`
	} `yaml:"spec"`
}

type podSpec struct {
	RestartPolicy string      `yaml:"restartPolicy"`
	Containers    []container `yaml:"containers"`
	Volumes       []volume    `yaml:"volumes"`
}

type container struct {
	Name         string   `yaml:"name"`
	Image        string   `yaml:"image"`
	Args         []string `yaml:"args"` // of the image's entry point, which is fettle
	VolumeMounts []mount  `yaml:"volumeMounts"`
}

type mount struct {
	Name      string `yaml:"name"`
	MountPath string `yaml:"mountPath"`
	ReadOnly  bool   `yaml:"readOnly,omitempty"`
}

type volume struct {
	Name     string             `yaml:"name"`
	EmptyDir *struct{}          `yaml:"emptyDir,omitempty"`
	Secret   *map[string]string `yaml:"secret,omitempty"`
}

// podFilesOf holds the files named on the command line, by their names in the pod.
type podFilesOf struct {
	names []string
	from  map[string]string
	bytes int64 // of all files
}

// secretBytes is the maximum size of a secret (MaxSecretSize of k8s.io/api/core/v1).
const secretBytes = 1 << 20

// secretKey matches valid file names in a secret (IsConfigMapKey of
// k8s.io/apimachinery/pkg/util/validation).
var secretKey = internaltext.LazyRegexp(`^[-._a-zA-Z0-9]{1,253}$`)

// put adds a file to the secret and returns its path in the pod.
func (p *podFilesOf) put(file string) (string, error) {
	name := filepath.Base(file)
	if was, taken := p.from[name]; taken && was != file {
		return "", fmt.Errorf("%s and %s have the same file name, and the pod keeps both in one directory; rename one", was, file)
	}
	if p.from[name] == "" {
		if !secretKey().MatchString(name) || strings.HasPrefix(name, "..") {
			return "", fmt.Errorf("%s: file names in a secret may contain only letters, digits, -, _ and .; rename the file", file)
		}
		size, err := sizeOf(file)
		if err != nil {
			return "", err
		}
		p.names, p.from[name] = append(p.names, name), file
		p.bytes += size
	}
	return path.Join(podFiles, name), nil
}

// sizeOf returns the size of a readable file, in bytes.
func sizeOf(file string) (int64, error) {
	f, err := os.Open(file)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", file)
	}
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}

// asIs quotes a word for a container's arguments. There, $(NAME) means the value of a variable,
// and $$ a literal $ (Container.args in the API reference).
func asIs(word string) string { return strings.ReplaceAll(word, "$", "$$") }

// manifest prints a Kubernetes Job that generates the load of the command line in a cluster.
// It resolves no names, because only the cluster may know them.
func (a *app) manifest(o loadHTTPOptions, flags *pflag.FlagSet, urls []string) error {
	if err := o.checkManifest(urls); err != nil {
		return ui.Exit(ui.Usage, err)
	}
	files := &podFilesOf{from: map[string]string{}}
	words := []string{"--state-dir", podState, "load", "http"}
	var failed error
	flags.Visit(func(f *pflag.Flag) {
		if slices.Contains([]string{"manifest", "image", "output", "state-dir"}, f.Name) {
			return
		}
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		for _, v := range values {
			v, err := inPod(files, f.Name, v)
			failed = errors.Join(failed, err)
			words = append(words, "--"+f.Name+"="+v)
		}
	})
	if failed == nil && files.bytes > secretBytes {
		failed = internaltext.Errorf("%s: %s in total, but a secret holds at most %d; use smaller files (compress or shorten the log of --replay)", strings.Join(files.names, ", "), internaltext.Count(files.bytes, "byte"), secretBytes)
	}
	if failed != nil {
		return ui.Exit(ui.Usage, failed)
	}
	args := append(append(words, "--output=json"), urls...)
	for i := range args {
		args[i] = asIs(args[i])
	}
	j := job{APIVersion: "batch/v1", Kind: "Job"}
	j.Metadata.Name = jobName
	one := container{Name: "fettle", Image: o.image, Args: args, VolumeMounts: []mount{{Name: "state", MountPath: podVolume}}}
	spec := podSpec{RestartPolicy: "Never", Volumes: []volume{{Name: "state", EmptyDir: &struct{}{}}}}
	if len(files.names) > 0 {
		one.VolumeMounts = append(one.VolumeMounts, mount{"files", podFiles, true})
		spec.Volumes = append(spec.Volumes, volume{Name: "files", Secret: &map[string]string{"secretName": jobName}})
		create := []string{"kubectl", "create", "secret", "generic", jobName}
		for _, name := range files.names {
			create = append(create, "--from-file="+name+"="+files.from[name])
		}
		fmt.Fprintf(a.screen.Out, "# %s\n", ui.Printable(internaltext.CommandLine(create)))
	}
	spec.Containers = []container{one}
	j.Spec.Template.Spec = spec
	e := yaml.NewEncoder(a.screen.Out)
	e.SetIndent(2)
	return errors.Join(e.Encode(j), e.Close())
}

// inPod returns a flag's value for the pod, where files have other paths.
func inPod(files *podFilesOf, flag, value string) (string, error) {
	switch flag {
	case "cert", "key", "cacert", "pkcs12", "pass-file", "urls", "replay":
		return files.put(value)
	case "header", "body":
		if file, is := strings.CutPrefix(value, "@"); is {
			there, err := files.put(file)
			return "@" + there, err
		}
	}
	return value, nil
}

// checkManifest rejects options that do not work in a pod.
func (o loadHTTPOptions) checkManifest(urls []string) error {
	if o.image == "" {
		return errors.New("--manifest needs --image: a container image with fettle in it")
	}
	for _, flag := range []string{"clients", "client-command", "puppet-ssldir", "pass-env"} {
		if o.Given(flag) {
			return fmt.Errorf("--%s cannot be used with --manifest: a pod cannot do that", flag)
		}
	}
	for _, word := range o.observe {
		if word != localMachine {
			return fmt.Errorf("--observe %s cannot be used with --manifest: a pod has no ssh", word)
		}
	}
	if _, err := o.Schedule(); err != nil {
		return err
	}
	if _, err := o.Gates(); err != nil {
		return err
	}
	switch {
	case len(o.Allow) > 0 || o.URLs != "":
		return nil
	case len(urls) == 0:
		return errors.New("want a URL")
	}
	u, err := url.Parse(urls[0])
	if err != nil || u.Host == "" || u.User != nil {
		return errors.New("want URLs that begin with http:// or https://, without a password")
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return fmt.Errorf("a pod cannot reach the server over loopback, so allow the server: --allow %s", net.JoinHostPort(u.Hostname(), port))
}
