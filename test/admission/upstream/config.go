package upstream

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"path/filepath"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubelet/config/v1beta1"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	conversion "k8s.io/kubernetes/pkg/kubelet/apis/config/v1beta1"
	"k8s.io/kubernetes/pkg/kubelet/apis/config/validation"
	"k8s.io/kubernetes/pkg/kubelet/kubeletconfig/configfiles"
	"k8s.io/kubernetes/pkg/util/filesystem"
)

// Config returns the configuration that a kubelet computes from its file and its drop-ins. It calls
// the kubelet's own loader, conversions, merge and defaults in the order of
// cmd/kubelet/app/server.go, which exports none of this. Before 1.32 it merges the files into the
// kubelet's internal type.
func Config(file, dropIns string) (*v1beta1.KubeletConfiguration, error) {
	internal, err := load(file)
	if err != nil {
		return nil, err
	}
	out := &v1beta1.KubeletConfiguration{}
	var base any = internal
	if Release >= 32 {
		base = out
		if err := conversion.Convert_config_KubeletConfiguration_To_v1beta1_KubeletConfiguration(internal, out, nil); err != nil {
			return nil, err
		}
	}
	merged, err := json.Marshal(base)
	if err != nil {
		return nil, err
	}
	err = filepath.WalkDir(dropIns, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || filepath.Ext(path) != ".conf" {
			return err
		}
		loader, err := configfiles.NewFsLoader(&filesystem.DefaultFs{}, path)
		if err != nil {
			return err
		}
		read := call(loader.LoadIntoJSON)
		if err := failure(read); err != nil {
			return err
		}
		if len(read) > 2 { // since 1.32
			kind := read[1].Interface().(*schema.GroupVersionKind)
			if kind == nil || *kind != v1beta1.SchemeGroupVersion.WithKind("KubeletConfiguration") {
				return fmt.Errorf("%s is a %v", path, kind)
			}
		}
		merged, err = jsonpatch.MergePatch(merged, result[[]byte](read))
		return err
	})
	if err != nil {
		return nil, err
	}
	if Release < 32 {
		if err := json.Unmarshal(merged, internal); err != nil {
			return nil, err
		}
		return out, conversion.Convert_config_KubeletConfiguration_To_v1beta1_KubeletConfiguration(internal, out, nil)
	}
	out = &v1beta1.KubeletConfiguration{}
	if err := json.Unmarshal(merged, out); err != nil {
		return nil, err
	}
	conversion.SetDefaults_KubeletConfiguration(out)
	// A configuration that cannot be converted back prevents the start.
	return out, conversion.Convert_v1beta1_KubeletConfiguration_To_config_KubeletConfiguration(out, &kubeletconfig.KubeletConfiguration{}, nil)
}

// ValidateConfig returns the result of the kubelet's own validation of a configuration file
// (cmd/kubelet app.NewKubeletCommand calls it with the effective configuration).
func ValidateConfig(file string) (err error) {
	// The defaults panic if the feature gates of the configuration cannot be set.
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	internal, err := load(file)
	if err != nil {
		return err
	}
	return validation.ValidateKubeletConfiguration(internal, utilfeature.DefaultFeatureGate)
}

// load reads a configuration file into the kubelet's internal type.
func load(file string) (*kubeletconfig.KubeletConfiguration, error) {
	loader, err := configfiles.NewFsLoader(&filesystem.DefaultFs{}, file)
	if err != nil {
		return nil, err
	}
	return try[*kubeletconfig.KubeletConfiguration](loader.Load)
}
