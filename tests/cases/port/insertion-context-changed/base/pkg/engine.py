def run(job):
    prepare(job)
    launch(job)
    report(job)
