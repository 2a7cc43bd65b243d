def run(job):
    prepare(job)
    launch(job, 1, retries=3)
    report(job)
