package kubelet

import (
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/kube/strict"
)

// Objects are the objects in a file, in order.
type Objects struct {
	Configs []KubeletConfig
	Pools   []KubeletPool
}

// maxFile limits a file, in bytes.
const maxFile = 4 << 20

// Read parses the KubeletConfig and KubeletPool objects in a file of YAML documents or JSON, single
// or in a List like kubectl's. A file without any is an error. It rejects unknown fields, wrong
// types and duplicates; errors name the file, the line and the field.
func Read(file string, data []byte) (Objects, error) {
	var out Objects
	r := strict.Objects(file, maxFile)
	for _, i := range r.Items(data) {
		n, version, kind := i.Node, i.Version, i.Kind
		switch {
		case version == ConfigVersion.String() && kind == "KubeletConfig":
			var k KubeletConfig
			r.Object(n, &k)
			out.Configs = append(out.Configs, k)
		case version == PoolVersion.String() && kind == "KubeletPool":
			var p KubeletPool
			r.Object(n, &p)
			out.Pools = append(out.Pools, p)
		case version == "" || kind == "":
			r.Fault(n, "apiVersion or kind is missing: want KubeletConfig of %s or KubeletPool of %s", ConfigVersion, PoolVersion)
		default:
			r.Fault(n, "%s of %s: want KubeletConfig of %s or KubeletPool of %s%s", kind, version, ConfigVersion, PoolVersion, text.Suggest(kind, []string{"KubeletConfig", "KubeletPool"}))
		}
	}
	if err := r.Err(); err != nil {
		return Objects{}, err
	}
	if len(out.Configs)+len(out.Pools) == 0 {
		return Objects{}, fmt.Errorf("%s contains no object; want KubeletConfig of %s or KubeletPool of %s", file, ConfigVersion, PoolVersion)
	}
	return out, nil
}

// Config returns the object's requested settings. It returns an error for unreadable or unsupported
// settings.
func (k *KubeletConfig) Config() (Config, error) {
	c := Config{Name: k.Name, Created: k.CreationTimestamp.Time}
	for field, set := range map[string]bool{
		"autoSizingReserved": k.Spec.AutoSizingReserved != nil, "logLevel": k.Spec.LogLevel != nil, "tlsSecurityProfile": k.Spec.TLSSecurityProfile != nil,
	} {
		if set {
			return c, fmt.Errorf("KubeletConfig %s: spec.%s is not supported, because OpenShift writes machine files from it; remove it", k.Name, field)
		}
	}
	if k.Spec.KubeletConfig == nil {
		return c, nil
	}
	var err error
	if c.Fields, err = Parse(k.Spec.KubeletConfig.Raw); err != nil {
		return c, fmt.Errorf("KubeletConfig %s: spec.kubeletConfig: %w", k.Name, err)
	}
	return c, nil
}

// Selecting returns the objects that select a pool with these labels. An object with an invalid
// selector selects nothing; wrong has its error.
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

// WantOfConfig returns the merged request of all objects that select a pool with these labels.
func WantOfConfig(all []KubeletConfig, poolLabels map[string]string) (Want, error) {
	selecting, wrong := Selecting(all, poolLabels)
	var configs []Config
	for i := range selecting {
		c, err := selecting[i].Config()
		if err != nil {
			wrong = errors.Join(wrong, err)
		}
		configs = append(configs, c)
	}
	if wrong != nil {
		return Want{}, wrong
	}
	return WantOf(configs)
}
