package upstream

import (
	"context"
	"fmt"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/apis/config/validation"
	"k8s.io/kubernetes/pkg/kubelet/kubeletconfig/configfiles"
	"k8s.io/kubernetes/pkg/util/filesystem"
)

// ValidateConfig is what the kubelet's own validation says of a configuration file (cmd/kubelet
// app.NewKubeletCommand calls it with the effective configuration).
func ValidateConfig(ctx context.Context, file string) (err error) {
	// Defaults of a configuration whose gates cannot be set panic.
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	loader, err := configfiles.NewFsLoader(&filesystem.DefaultFs{}, file)
	if err != nil {
		return err
	}
	var internal *kubeletconfig.KubeletConfiguration
	switch l := any(loader).(type) { // before 1.34 without a context
	case interface {
		Load(context.Context) (*kubeletconfig.KubeletConfiguration, error)
	}:
		internal, err = l.Load(ctx)
	case interface {
		Load() (*kubeletconfig.KubeletConfiguration, error)
	}:
		internal, err = l.Load()
	default:
		return fmt.Errorf("%T loads nothing", loader)
	}
	if err != nil {
		return err
	}
	return validation.ValidateKubeletConfiguration(internal, utilfeature.DefaultFeatureGate)
}
