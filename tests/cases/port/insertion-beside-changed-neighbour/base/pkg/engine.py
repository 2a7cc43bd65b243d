def run(job):
    prepare(job)
    launch(job, 1)
    report(job)
