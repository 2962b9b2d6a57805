// Package table is the list of all products. A new product is a line here.
package table

import (
	"fettle.dev/fettle/internal/component"
	"fettle.dev/fettle/internal/component/dynflow"
	"fettle.dev/fettle/internal/component/etcd"
	"fettle.dev/fettle/internal/component/haproxy"
	"fettle.dev/fettle/internal/component/hiera"
	"fettle.dev/fettle/internal/component/httpd"
	"fettle.dev/fettle/internal/component/kubelet"
	"fettle.dev/fettle/internal/component/mosquitto"
	"fettle.dev/fettle/internal/component/nginx"
	"fettle.dev/fettle/internal/component/postgresql"
	"fettle.dev/fettle/internal/component/prometheus"
	"fettle.dev/fettle/internal/component/puma"
	"fettle.dev/fettle/internal/component/puppetserver"
	"fettle.dev/fettle/internal/component/qpid"
	"fettle.dev/fettle/internal/component/redis"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
)

// All is every product.
var All = []component.Product{
	kubelet.Product,
	postgresql.Product,
	httpd.Product,
	redis.Product,
	etcd.Product,
	prometheus.Product,
	nginx.Product,
	puma.Product,
	dynflow.Product,
	haproxy.Product,
	mosquitto.Product,
	qpid.Product,
}

// Kinds are the kinds of setting of all products, and of the files of those that
// a platform reads.
func Kinds(h *host.Host) setting.Kinds {
	kinds := setting.Kinds{hiera.Name: hiera.Kind(h), puppetserver.Name: puppetserver.Kind(h)}
	for _, p := range All {
		if p.Kind != nil {
			kinds[p.Name] = p.Kind(h)
		}
	}
	return kinds
}
