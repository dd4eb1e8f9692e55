module early

go 1.26.0

require k8s.io/kubectl v0.37.2

require (
	github.com/chai2010/gettext-go v1.0.2 // indirect
	github.com/go-logr/logr v1.4.3 // indirect
	k8s.io/klog/v2 v2.140.0 // indirect
)
