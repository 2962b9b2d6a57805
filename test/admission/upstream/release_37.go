//go:build kubernetes_1_37

package upstream

const release = 37
