package kubeletconfig

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	kjson "sigs.k8s.io/json"
	jsonyaml "sigs.k8s.io/yaml"

	"fettle.dev/fettle/internal/kube/kubelet"
	"fettle.dev/fettle/internal/spell"
)

// Objects are those of a file, in its order.
type Objects struct {
	Configs []KubeletConfig
	Pools   []KubeletPool
}

// maxFile caps a file, in bytes.
const maxFile = 4 << 20

// Read reads the KubeletConfig and KubeletPool objects of a file, YAML documents or JSON.
// It takes what an API server takes and nothing else: a field that there is not, a value
// of another type and anything that is there twice are errors, with the line at which the
// object begins and the field.
func Read(file string, data []byte) (Objects, error) {
	var out Objects
	if len(data) > maxFile {
		return out, fmt.Errorf("%s: larger than %d MiB", file, maxFile>>20)
	}
	var problems []error
	for dec := yaml.NewDecoder(bytes.NewReader(data)); ; {
		var n yaml.Node
		err := dec.Decode(&n)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return Objects{}, fmt.Errorf("%s: %s", file, strings.TrimPrefix(err.Error(), "yaml: "))
		}
		if len(n.Content) != 1 || n.Content[0].ShortTag() == "!!null" { // "---" with nothing behind it
			continue
		}
		if err := out.document(&n); err != nil {
			problems = append(problems, fmt.Errorf("%s:%d: %w", file, n.Content[0].Line, err))
		}
	}
	if len(problems) > 0 {
		return Objects{}, errors.Join(problems...)
	}
	return out, nil
}

// kinds are the names of the objects that are read.
var kinds = []string{"KubeletConfig", "KubeletPool"}

func (o *Objects) document(n *yaml.Node) error {
	text, err := yaml.Marshal(n)
	if err != nil {
		return err
	}
	b, err := jsonyaml.YAMLToJSONStrict(text)
	if err != nil {
		return err
	}
	var head metav1.TypeMeta
	if err := json.Unmarshal(b, &head); err != nil {
		return fmt.Errorf("want an object: %w", err)
	}
	switch {
	case head.APIVersion == ConfigVersion.String() && head.Kind == "KubeletConfig":
		var k KubeletConfig
		if err := strict(b, &k); err != nil {
			return err
		}
		o.Configs = append(o.Configs, k)
	case head.APIVersion == PoolVersion.String() && head.Kind == "KubeletPool":
		var p KubeletPool
		if err := strict(b, &p); err != nil {
			return err
		}
		o.Pools = append(o.Pools, p)
	default:
		return fmt.Errorf("%q of %q: want KubeletConfig of %s or KubeletPool of %s%s", head.Kind, head.APIVersion, ConfigVersion, PoolVersion, spell.Suggest(head.Kind, kinds))
	}
	return nil
}

// strict decodes an object that has a name.
func strict(b []byte, into metav1.Object) error {
	wrong, err := kjson.UnmarshalStrict(b, into)
	if err != nil {
		return err
	}
	if into.GetName() == "" {
		wrong = append(wrong, errors.New("metadata.name is missing"))
	}
	return errors.Join(wrong...)
}

// Config is what the object asks for. The error says what of it fettle cannot do, or
// cannot be read.
func (k *KubeletConfig) Config() (kubelet.Config, error) {
	c := kubelet.Config{Name: k.Name, Created: k.CreationTimestamp.Time}
	for field, set := range map[string]bool{
		"autoSizingReserved": k.Spec.AutoSizingReserved != nil, "logLevel": k.Spec.LogLevel != nil, "tlsSecurityProfile": k.Spec.TLSSecurityProfile != nil,
	} {
		if set {
			return c, fmt.Errorf("KubeletConfig %s: spec.%s is not fettle's to set: OpenShift makes files of the machine of it: take it out", k.Name, field)
		}
	}
	if k.Spec.KubeletConfig == nil {
		return c, nil
	}
	var err error
	if c.Fields, err = kubelet.Parse(k.Spec.KubeletConfig.Raw); err != nil {
		return c, fmt.Errorf("KubeletConfig %s: spec.kubeletConfig: %w", k.Name, err)
	}
	return c, nil
}

// Selecting are the objects that select a pool with labels. An object whose selector
// cannot be read selects nothing, and is in wrong.
func Selecting(all []KubeletConfig, poolLabels map[string]string) (selecting []KubeletConfig, wrong error) {
	for i := range all {
		s, err := metav1.LabelSelectorAsSelector(all[i].Spec.MachineConfigPoolSelector)
		if err != nil {
			wrong = errors.Join(wrong, fmt.Errorf("KubeletConfig %s: spec.machineConfigPoolSelector: %w", all[i].Name, err))
			continue
		}
		if !s.Empty() && s.Matches(labels.Set(poolLabels)) {
			selecting = append(selecting, all[i])
		}
	}
	return slices.Clip(selecting), wrong
}

// WantOf is what the objects want of a pool with labels, merged.
func WantOf(all []KubeletConfig, poolLabels map[string]string) (kubelet.Want, error) {
	selecting, wrong := Selecting(all, poolLabels)
	var configs []kubelet.Config
	for i := range selecting {
		c, err := selecting[i].Config()
		if err != nil {
			wrong = errors.Join(wrong, err)
		}
		configs = append(configs, c)
	}
	if wrong != nil {
		return kubelet.Want{}, wrong
	}
	return kubelet.WantOf(configs)
}
